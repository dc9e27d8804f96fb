// Which instruction sets this machine has, and which one is used.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace bipointnet {

struct IsaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The kernels that run here, best first; portable is the last.
std::vector<const Kernels*> available_kernels();

// The kernels called `name`. An empty name is what BIPOINTNET_ISA says, or the best where that is unset or empty.
const Kernels& find_kernels(std::string name = "");

}  // namespace bipointnet
