// Farthest points, neighbors, densities and interpolation on the grid of docs/format.md, "Neighbors".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet::search {

// `count` elements of `channels` floats each, row-major.
struct Rows {
  const float* numbers = nullptr;
  std::size_t count = 0, channels = 0;
};

// Groups of neighbors: for each center `slots` indices into the points, of which the first counts[i] are true
// neighbors; the other slots repeat the first.
struct Groups {
  std::size_t slots = 0;
  std::vector<std::uint32_t> indices;  // centers x slots
  std::vector<std::uint32_t> counts;   // one per center, from 1 to slots
};

// All functions throw InputError for numbers that are not finite or beyond 10^15. Memory is linear in the operands and
// results, with a small constant per thread. `ties.numbers` may be null: then ranks are indices.

std::vector<std::uint32_t> farthest_points(const Kernels& kernels, Rows points, std::size_t count, Order order);

Groups nearest(const Kernels& kernels, Rows centers, Rows points, Rows ties, std::size_t slots, std::size_t dilation,
               unsigned threads);

// `sorted`: whether the neighbors of a group must be in the order that the format defines. Without it a group has the
// same neighbors in any order, but its first one, which the free slots repeat, is the first. That is enough for maxima
// and cheaper.
Groups ball(const Kernels& kernels, Rows centers, Rows points, Rows ties, std::size_t slots, double radius, Order order,
            bool sorted, unsigned threads);

// Fewer than kMostDensities points: a term is at most 2^30, and a sum below 2^53 is exact.
constexpr std::size_t kMostDensities = std::size_t{1} << 23;
void density(const Kernels& kernels, Rows points, double bandwidth, unsigned threads, float* densities);

void interpolate(const Kernels& kernels, Rows centers, Rows points, Rows values, Guard guard, float epsilon,
                 unsigned threads, float* results);

}  // namespace bipointnet::search
