#include "engine/pooled.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "format/bits.h"

namespace bipointnet {
namespace {

constexpr std::size_t kMeanGroup = 64;
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

Pooled::Pooled(const Layer& last) {
  const std::size_t inputs = static_cast<std::size_t>(last.inputs), outputs = static_cast<std::size_t>(last.outputs);
  if (last.op == Op::bilinear_pool) {
    fired.assign(words_for(outputs), 0);
    if (last.pool == Pool::mean) ones.assign(inputs, 0);
  }
  if (last.op == Op::pool) {
    if (last.pool == Pool::max) largest.assign(outputs, -std::numeric_limits<float>::infinity());
    if (last.pool == Pool::mean) sums.assign(outputs, 0);
  }
}

void Pooled::count_ones(const std::uint64_t* slices, const std::uint64_t* mask, std::size_t width) {
  for (std::size_t k = 0; k < ones.size(); ++k) {
    for (std::size_t word = 0; word < width; ++word) {
      ones[k] += __builtin_popcountll(slices[k * width + word] & mask[word]);
    }
  }
}

// A block is a whole number of groups, so a group never spans two blocks.
void Pooled::add_floats(const float* rows, std::size_t points, std::size_t lanes) {
  for (std::size_t start = 0; start < points; start += kMeanGroup) {
    const std::size_t count = std::min(kMeanGroup, points - start);
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

void Pooled::finish(const Layer& last, std::size_t points, Vector& value) const {
  const std::size_t inputs = static_cast<std::size_t>(last.inputs), outputs = static_cast<std::size_t>(last.outputs);
  if (last.op == Op::pool) {
    value.floats.clear();
    for (const float number : largest) value.floats.push_back(number + 0.0f);  // -0 becomes +0
    for (const double sum : sums) value.floats.push_back(static_cast<float>(sum / static_cast<double>(points)));
    return;
  }
  value.bits = fired;
  if (last.pool == Pool::max) return;
  // The agreements of all points with a row: input k agrees at ones[k] points if its weight is +1, else at all others.
  const std::int64_t all = static_cast<std::int64_t>(points);
  for (std::size_t m = 0; m < outputs; ++m) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      sum += last.bits[m * words_for(inputs) + k / 64] >> k % 64 & 1 ? ones[k] : all - ones[k];
    }
    const double bound = std::ceil(static_cast<double>(points) * last.line[2 * m]);
    if (static_cast<double>(sum) >= bound) value.bits[m / 64] |= std::uint64_t{1} << m % 64;
  }
}

}  // namespace bipointnet
