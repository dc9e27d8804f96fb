// Reads the program of a packed model.
#pragma once

#include <cstdint>

#include "format/fields.h"
#include "format/network.h"
#include "format/tensors.h"

namespace bipointnet {

constexpr std::int64_t kMaxWidth = 32766;  // channels of a value, and classes

// Fills in the layers and the kept values of `network`. Its task, classes, categories and channels are already known.
void read_program(const Fields& manifest, Tensors& tensors, Network& network);

}  // namespace bipointnet
