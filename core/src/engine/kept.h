// Which points of a cloud a prediction uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet {

// A copy equals an earlier point in all channels; -0 equals +0.
struct KeptPoints {
  std::vector<std::uint32_t> index;  // the kept points, in order; empty if all points are kept
  std::vector<std::uint32_t> place;  // per point: where it, or the point that it copies, is among the kept ones; empty
                                     // if all points are kept, or if points that are no copies were left out
};

// The points that are no copies; if there are more than `most`, the `most` with the lowest ranks. most = 0: no limit.
// The rank of a point is a hash of its numbers, so the sample does not depend on the order of the points or on copies.
KeptPoints kept_points(const float* numbers, std::size_t points, std::size_t channels, std::size_t most);

}  // namespace bipointnet
