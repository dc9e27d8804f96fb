#include "search/grid.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/cloud.h"
#include "format/text.h"

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

void include(Range& range, float number) {
  range.low = number < range.low ? number : range.low;
  range.high = number > range.high ? number : range.high;
}

// Widens the ranges of the channels to the rows: channel by channel if these are few, where four chains of comparisons
// hide the latency of each, else row by row, as rows are in memory.
void widen(std::vector<Range>& ranges, Rows rows) {
  constexpr std::size_t kFew = 8, kChains = 4;
  if (rows.channels > kFew) {
    for (std::size_t i = 0; i < rows.count; ++i) {
      for (std::size_t c = 0; c < rows.channels; ++c) include(ranges[c], rows.numbers[i * rows.channels + c]);
    }
    return;
  }
  for (std::size_t c = 0; c < rows.channels; ++c) {
    Range chains[kChains] = {ranges[c], ranges[c], ranges[c], ranges[c]};
    const auto number = [&](std::size_t i) { return rows.numbers[i * rows.channels + c]; };
    std::size_t i = 0;
    for (; i + kChains <= rows.count; i += kChains) {
      for (std::size_t j = 0; j < kChains; ++j) include(chains[j], number(i + j));
    }
    for (; i < rows.count; ++i) include(chains[0], number(i));
    for (const Range& chain : chains) {
      ranges[c] = {std::min(ranges[c].low, chain.low), std::max(ranges[c].high, chain.high)};
    }
  }
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
                   std::to_string(i / rows.channels) + " is " + printed(double{rows.numbers[i]}) +
                   ", expected a number within +-10^15");
}

Grid::Grid(Rows points, Rows centers)
    : bits_(place_bits(points.channels)), low_(points.channels), high_(points.channels) {
  std::vector<Range> ranges(points.channels);
  for (std::size_t c = 0; c < points.channels; ++c) ranges[c] = {points.numbers[c], points.numbers[c]};
  widen(ranges, points);
  if (centers.numbers != points.numbers) widen(ranges, centers);
  double extent = 0x1p-126;
  for (std::size_t c = 0; c < points.channels; ++c) {
    low_[c] = double{ranges[c].low};
    high_[c] = double{ranges[c].high};
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
      outside += !(double{x[c]} >= low_[c]);
      outside += !(double{x[c]} <= high_[c]);
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
