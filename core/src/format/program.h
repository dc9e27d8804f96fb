// Reads the program of a packed model.
#pragma once

#include "format/fields.h"
#include "format/network.h"
#include "format/tensors.h"

namespace bipointnet {

// Fills in the domains, values and operations of `network`. Its task, classes, categories and channels are already
// known.
void read_program(const Fields& manifest, Tensors& tensors, Network& network);

}  // namespace bipointnet
