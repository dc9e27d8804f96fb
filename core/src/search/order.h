// Orders of points: by their coordinates, which decides between equal distances, and along a curve through space, which
// keeps neighbors together.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "search/search.h"

namespace bipointnet::search {

// The elements in ascending order of their channels, then of their indices: rank -> index. Without numbers: 0, 1, ...
std::vector<std::uint32_t> ranked(Rows ties, std::size_t count);

// The elements in the Morton order of their first three channels, about as finely as their number needs. `places` has
// rows of `stride` numbers from 0 to 2^bits, of which the first `channels` are used.
std::vector<std::uint32_t> along_curve(const Aligned<double>& places, std::size_t channels, std::size_t stride,
                                       int bits);

}  // namespace bipointnet::search
