// A cloud as the kernels read it: checked, cut into blocks, normalised.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "engine/aligned.h"

namespace bipointnet {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Cloud {
  std::size_t points;
  std::size_t blocks;
  Aligned<float> rows;  // blocks x channels x lanes
};

// Throws InputError for sizes that no cloud has here.
void check_size(std::size_t points);

// numbers: points x channels. Throws InputError where one is not finite.
Cloud arrange(const float* numbers, std::size_t points, std::size_t channels, std::size_t lanes);

// Moves xyz, the first three channels, into the unit sphere around their mean.
void normalize(Cloud& cloud, std::size_t channels, std::size_t lanes);

}  // namespace bipointnet
