// The state of the pool that ends a pass over the points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "engine/vector_ops.h"
#include "format/network.h"

namespace bipointnet {

struct Pooled {
  // For the last operation of a pass. Empty if that is not a pool.
  explicit Pooled(const Layer& last);

  // For a mean of bits: counts the ones in a block of slices of `width` words.
  void count_ones(const std::uint64_t* slices, const std::uint64_t* mask, std::size_t width);

  // For a mean of floats: adds the first `points` points of a block, in rows of `lanes`. Blocks must come in order.
  void add_floats(const float* rows, std::size_t points, std::size_t lanes);

  // Adds the points that `other` has seen.
  void merge(const Pooled& other);

  // Writes the value after the pool.
  void finish(const Layer& last, std::size_t points, Vector& value) const;

  std::vector<std::uint64_t> fired;  // max of bits
  std::vector<std::int64_t> ones;    // mean of bits: at how many points each input is 1
  std::vector<float> largest;        // max of floats
  std::vector<double> sums;          // mean of floats
};

}  // namespace bipointnet
