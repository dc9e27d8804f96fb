// The state of a pool over a set, and the thresholds of pools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/bitsliced.h"
#include "engine/storage.h"
#include "format/network.h"

namespace bipointnet {

// T of a maximum over n elements: ceil(a + b d) for each output, from 0 to inputs + 1.
std::vector<int> max_thresholds(const Operation& pool, std::size_t n);

// The codes of thresholds for kernels.bilinear_pool_groups.
std::vector<std::uint32_t> threshold_codes(const std::vector<int>& thresholds, int inputs, int levels);

// Whether sum, the agreements of all of n elements with row m of weights, reaches the threshold of a mean.
bool reaches_mean(const Operation& pool, std::size_t m, std::size_t n, double sum);

constexpr std::size_t kRunLength = 64;  // elements

// A sum over elements in float64 as docs/format.md defines it: in runs of kRunLength, whose sums are added in order.
class RunSum {
 public:
  explicit RunSum(double before) : total_(before) {}  // the sum of the runs so far
  void add(float number) {
    run_ += double{number};
    if (++count_ % kRunLength == 0) flush();
  }
  double total() {
    if (count_ % kRunLength != 0) flush();
    return total_;
  }

 private:
  void flush() {
    total_ += run_;
    run_ = 0;
  }
  double run_ = 0, total_;
  std::size_t count_ = 0;
};

// A pool over all elements of a set: one per worker, merged at the end.
struct Pooled {
  explicit Pooled(const Operation& pool);

  // For a mean of bits: counts the ones in a block of slices of `width` words.
  void count_ones(const std::uint64_t* slices, const std::uint64_t* mask, std::size_t width);

  // For a mean or a sum of floats: adds the first `count` elements of a block, in rows of `lanes`. Blocks must come in
  // order.
  void add_floats(const float* rows, std::size_t count, std::size_t lanes);

  // Adds the elements that `other` has seen.
  void merge(const Pooled& other);

  // Writes the result for a set of n elements; d is the shift of a maximum of floats.
  void finish(const Operation& pool, std::size_t n, double d, Storage& result) const;

  std::vector<std::uint64_t> fired;  // max of bits
  std::vector<std::int64_t> ones;    // mean of bits: at how many elements each input is 1
  std::vector<float> largest;        // max of floats
  std::vector<double> sums;          // mean and sum of floats
};

}  // namespace bipointnet
