// Selects the kernels of the best instruction set that this machine has.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace bipointnet {

struct IsaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The kernels that run on this machine, best first; portable is last.
std::vector<const Kernels*> available_kernels();

// The kernels called `name`. An empty name selects BIPOINTNET_ISA, or the best if that is unset or empty. Throws
// IsaError.
const Kernels& find_kernels(std::string name = "");

}  // namespace bipointnet
