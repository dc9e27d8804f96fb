// The pool that ends a pass over the points: what it has seen of them so far, and what it makes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "engine/vector_ops.h"
#include "format/network.h"

namespace bipointnet {

struct Pooled {
  // For the last operation of a pass; of one that is no pool, nothing.
  explicit Pooled(const Layer& last);

  // A block of bits, in slices of `width` words, for a mean.
  void count_ones(const std::uint64_t* slices, const std::uint64_t* mask, std::size_t width);

  // The first `points` points of a block of floats, in rows of `lanes`, for a mean. Blocks come in order.
  void add_floats(const float* rows, std::size_t points, std::size_t lanes);

  // What another one has seen.
  void merge(const Pooled& other);

  // The value after the pool.
  void finish(const Layer& last, std::size_t points, Vector& value) const;

  std::vector<std::uint64_t> fired;  // max of bits
  std::vector<std::int64_t> ones;    // mean of bits: how often each input is 1
  std::vector<float> largest;        // max of floats
  std::vector<double> sums;          // mean of floats
};

}  // namespace bipointnet
