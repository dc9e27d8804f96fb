#include "search/grid.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/cloud.h"

namespace bipointnet::search {
namespace {

constexpr float kLargest = 1e15f;      // squares of distances do not overflow float32
constexpr double kRounder = 0x1.8p52;  // adding and subtracting it rounds a number below 2^51 to an integer

int place_bits(std::size_t channels) {
  int log = 0;
  while ((std::size_t{1} << log) < channels) ++log;
  return (52 - log) / 2;
}

struct Range {
  float low, high;
};

// Widens the range to one channel of the rows. Four chains of comparisons hide the latency of each.
void widen(Range& range, Rows rows, std::size_t channel) {
  constexpr std::size_t kChains = 4;
  Range chains[kChains] = {range, range, range, range};
  const float* x = rows.numbers + channel;
  const auto visit = [&](std::size_t i, Range& chain) {
    const float number = x[i * rows.channels];
    chain.low = number < chain.low ? number : chain.low;
    chain.high = number > chain.high ? number : chain.high;
  };
  std::size_t i = 0;
  for (; i + kChains <= rows.count; i += kChains) {
    for (std::size_t j = 0; j < kChains; ++j) visit(i + j, chains[j]);
  }
  for (; i < rows.count; ++i) visit(i, chains[0]);
  for (const Range& chain : chains) range = {std::min(range.low, chain.low), std::max(range.high, chain.high)};
}

}  // namespace

void check_numbers(const char* what, Rows rows) {
  const std::size_t count = rows.count * rows.channels;
  int broken = 0;
  for (std::size_t i = 0; i < count; ++i) broken |= !(std::abs(rows.numbers[i]) <= kLargest);
  if (!broken) return;
  std::size_t i = 0;
  while (std::abs(rows.numbers[i]) <= kLargest) ++i;
  throw InputError("neighbor search: channel " + std::to_string(i % rows.channels) + " of " + what + " " +
                   std::to_string(i / rows.channels) + " is " + std::to_string(rows.numbers[i]) +
                   ", expected a number within +-10^15");
}

Grid::Grid(Rows points, Rows centers)
    : bits_(place_bits(points.channels)), low_(points.channels), high_(points.channels) {
  double extent = 0x1p-126;
  for (std::size_t c = 0; c < points.channels; ++c) {
    Range range{points.numbers[c], points.numbers[c]};
    widen(range, points, c);
    if (centers.numbers != points.numbers) widen(range, centers, c);
    low_[c] = double{range.low};
    high_[c] = double{range.high};
    extent = std::max(extent, high_[c] - low_[c]);
  }
  int exponent;
  std::frexp(extent, &exponent);  // 2^(exponent - 1) <= extent < 2^exponent
  step_ = std::ldexp(1.0, exponent - bits_);
  scale_ = std::ldexp(1.0, bits_ - exponent);
}

bool Grid::covers(Rows centers) const {
  int outside = 0;
  for (std::size_t i = 0; i < centers.count; ++i) {
    const float* x = centers.numbers + i * centers.channels;
    for (std::size_t c = 0; c < centers.channels; ++c) {
      outside |= !(double{x[c]} >= low_[c]) | !(double{x[c]} <= high_[c]);
    }
  }
  return outside == 0;
}

Aligned<double> Grid::places(Rows rows, std::size_t stride) const {
  Aligned<double> places(checked_product(rows.count, stride));
  for (std::size_t i = 0; i < rows.count; ++i) {
    const float* x = rows.numbers + i * rows.channels;
    double* place = places.data() + i * stride;
    for (std::size_t c = 0; c < rows.channels; ++c) place[c] = (double{x[c]} - low_[c]) * scale_ + kRounder - kRounder;
  }
  return places;
}

}  // namespace bipointnet::search
