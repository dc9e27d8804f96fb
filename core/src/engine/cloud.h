// A cloud as the kernels read it: checked, split into blocks, normalized.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "engine/aligned.h"
#include "format/network.h"

namespace bipointnet {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Cloud {
  std::size_t points;
  std::size_t blocks;
  Aligned<float> rows;  // blocks x channels x lanes
};

// Throws InputError unless 1 <= points < 2^32.
void check_point_count(std::size_t points);

// numbers: points x channels. Throws InputError if a number is not finite.
void check_numbers(const float* numbers, std::size_t points, std::size_t channels);

Cloud split_into_blocks(const float* numbers, std::size_t points, std::size_t channels, std::size_t lanes);

// Moves the center of xyz, the first three channels, to the origin and scales the farthest point to distance 1.
void normalize(Cloud& cloud, std::size_t channels, std::size_t lanes, Normalize how);

}  // namespace bipointnet
