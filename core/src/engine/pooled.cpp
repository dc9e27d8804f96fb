#include "engine/pooled.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/delta.h"
#include "format/bits.h"
#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr std::size_t kChains = 8;

// Adds kChains rows over `points` points, each in the order of the points. The rows are independent chains.
void add_rows(const float* rows, std::size_t points, std::size_t lanes, double* sums) {
  double group[kChains] = {};
  for (std::size_t p = 0; p < points; ++p) {
    for (std::size_t j = 0; j < kChains; ++j) group[j] += double{rows[j * lanes + p]};
  }
  for (std::size_t j = 0; j < kChains; ++j) sums[j] += group[j];
}

void add_row(const float* row, std::size_t points, double& sum) {
  double group = 0;
  for (std::size_t p = 0; p < points; ++p) group += double{row[p]};
  sum += group;
}

}  // namespace

std::vector<int> max_thresholds(const Operation& pool, std::size_t n) {
  const double shift = pool.shifted ? delta(n) : 0.0;
  std::vector<int> thresholds(pool.line.size() / 2);
  const double most = pool.inputs + 1.0;
  const double* line = pool.line.data();
  int* whole = thresholds.data();
  for (std::size_t m = 0, count = thresholds.size(); m < count; ++m) {
    // Without SSE4.1, ceil is a function. The bounds are whole numbers, so they may be applied first.
    const double bound = std::min(std::max(line[2 * m] + line[2 * m + 1] * shift, 0.0), most);
    const int down = static_cast<int>(bound);
    whole[m] = down + static_cast<int>(bound > static_cast<double>(down));
  }
  return thresholds;
}

// Without branches, so that compilers vectorize it.
std::vector<std::uint32_t> threshold_codes(const std::vector<int>& thresholds, int inputs, int levels) {
  std::vector<std::uint32_t> codes(thresholds.size());
  for (std::size_t m = 0; m < codes.size(); ++m) {
    const auto t = static_cast<std::uint32_t>(thresholds[m]);
    const std::uint32_t varies = ((1u << (levels - 1)) - (t + 1) / 2) | (t & 1) << kOddCode;
    const std::uint32_t bounded = thresholds[m] > inputs ? 1u << kConstantCode : varies;
    codes[m] = thresholds[m] <= 0 ? 1u << kConstantCode | 1u << kAlwaysCode : bounded;
  }
  return codes;
}

bool reaches_mean(const Operation& pool, std::size_t m, std::size_t n, double sum) {
  return sum >= std::ceil(static_cast<double>(n) * pool.line[2 * m]);
}

Pooled::Pooled(const Operation& pool) {
  const std::size_t inputs = size(pool.inputs), outputs = size(pool.outputs);
  if (pool.op == Op::bilinear_pool) {
    fired.assign(words_for(outputs), 0);
    if (pool.pool == Pool::mean) ones.assign(inputs, 0);
  }
  if (pool.op == Op::pool) {
    if (pool.pool == Pool::max) largest.assign(outputs, -std::numeric_limits<float>::infinity());
    if (pool.pool != Pool::max) sums.assign(outputs, 0);
  }
}

void Pooled::count_ones(const std::uint64_t* slices, const std::uint64_t* mask, std::size_t width) {
  for (std::size_t k = 0; k < ones.size(); ++k) {
    for (std::size_t word = 0; word < width; ++word) {
      ones[k] += __builtin_popcountll(slices[k * width + word] & mask[word]);
    }
  }
}

// A block is a whole number of runs, so a run never spans two blocks.
void Pooled::add_floats(const float* rows, std::size_t points, std::size_t lanes) {
  for (std::size_t start = 0; start < points; start += kRunLength) {
    const std::size_t count = std::min(kRunLength, points - start);
    std::size_t k = 0;
    for (; k + kChains <= sums.size(); k += kChains) add_rows(rows + k * lanes + start, count, lanes, &sums[k]);
    for (; k < sums.size(); ++k) add_row(rows + k * lanes + start, count, sums[k]);
  }
}

void Pooled::merge(const Pooled& other) {
  for (std::size_t i = 0; i < fired.size(); ++i) fired[i] |= other.fired[i];
  for (std::size_t i = 0; i < ones.size(); ++i) ones[i] += other.ones[i];
  for (std::size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], other.largest[i]);
}

void Pooled::finish(const Operation& pool, std::size_t n, double d, Storage& result) const {
  if (pool.op == Op::pool) {
    const float shift = static_cast<float>(d);
    result.elements.clear();
    for (const float number : largest) {
      const float most = number + 0.0f;  // -0 becomes +0
      result.elements.push_back(pool.shifted ? most - shift : most);
    }
    const double divisor = pool.pool == Pool::mean ? static_cast<double>(n) : 1.0;
    for (const double sum : sums) result.elements.push_back(static_cast<float>(sum / divisor));
    return;
  }
  result.words = fired;
  if (pool.pool == Pool::max) return;
  // The agreements of all elements with a row: input k agrees at ones[k] elements if its weight is +1, else at all
  // others.
  const std::size_t inputs = size(pool.inputs), width = words_for(inputs);
  const std::int64_t all = static_cast<std::int64_t>(n);
  for (std::size_t m = 0; m < size(pool.outputs); ++m) {
    // A branch per bit would be mispredicted half the time.
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      const auto agrees = -static_cast<std::int64_t>(get_bit(&pool.bits[m * width], k));  // 0 or -1
      sum += (ones[k] & agrees) | ((all - ones[k]) & ~agrees);
    }
    if (reaches_mean(pool, m, n, static_cast<double>(sum))) result.words[m / 64] |= std::uint64_t{1} << m % 64;
  }
}

}  // namespace bipointnet
