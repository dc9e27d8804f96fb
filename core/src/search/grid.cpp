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

Grid::Grid(Rows points, Rows centers) : bits_(place_bits(points.channels)), low_(points.channels) {
  const std::size_t channels = points.channels;
  std::vector<float> low(points.numbers, points.numbers + channels), high = low;
  for (const Rows rows : {points, centers}) {
    for (std::size_t i = 0; i < rows.count; ++i) {
      const float* x = rows.numbers + i * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        low[c] = x[c] < low[c] ? x[c] : low[c];
        high[c] = x[c] > high[c] ? x[c] : high[c];
      }
    }
  }
  double extent = 0x1p-126;
  for (std::size_t c = 0; c < channels; ++c) {
    low_[c] = double{low[c]};
    extent = std::max(extent, double{high[c]} - low_[c]);
  }
  int exponent;
  std::frexp(extent, &exponent);  // 2^(exponent - 1) <= extent < 2^exponent
  step_ = std::ldexp(1.0, exponent - bits_);
  scale_ = std::ldexp(1.0, bits_ - exponent);
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
