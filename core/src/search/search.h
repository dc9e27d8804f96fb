// Farthest points, neighbors, densities and interpolation on the grid of docs/format.md, "Neighbors".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

class Points;

// Searches in the values of one run. Points that the last search has prepared are not prepared again, so rows must not
// change while this object lives. All methods throw InputError for numbers that are not finite or beyond 10^15. Memory
// is linear in the operands and results, with a small constant per thread. `ties.numbers` may be null: then ranks are
// indices.
class Searches {
 public:
  Searches(const Kernels& kernels, unsigned threads);
  ~Searches();
  Searches(const Searches&) = delete;
  Searches& operator=(const Searches&) = delete;

  std::vector<std::uint32_t> farthest_points(Rows points, std::size_t count, Order order);

  Groups nearest(Rows centers, Rows points, Rows ties, std::size_t slots, std::size_t dilation);

  // `sorted`: whether the neighbors of a group must be in the order that the format defines. Without it a group has
  // the same neighbors in any order, but its first one, which the free slots repeat, is the first. That is enough for
  // maxima and cheaper.
  Groups ball(Rows centers, Rows points, Rows ties, std::size_t slots, double radius, Order order, bool sorted);

  // Fewer than kMostDensities points: a term is at most 2^30, and a sum below 2^53 is exact.
  static constexpr std::size_t kMostDensities = std::size_t{1} << 23;
  void density(Rows points, double bandwidth, float* densities);

  void interpolate(Rows centers, Rows points, Rows values, Guard guard, float epsilon, float* results);

 private:
  Points& prepare(Rows points, Rows centers);

  const Kernels& kernels_;
  unsigned threads_;
  std::unique_ptr<Points> last_;
};

}  // namespace bipointnet::search
