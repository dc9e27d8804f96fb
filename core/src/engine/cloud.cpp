#include "engine/cloud.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace bipointnet {
namespace {

constexpr std::size_t kStride = 8;
constexpr float kLargest = std::numeric_limits<float>::max();

[[noreturn]] void fail_not_finite(const float* numbers, std::size_t points, std::size_t channels) {
  std::size_t i = 0;
  while (i + 1 < points * channels && std::isfinite(numbers[i])) ++i;
  throw InputError("point " + std::to_string(i / channels) + ": " + std::to_string(numbers[i]) +
                   ", expected finite numbers");
}

}  // namespace

void check_point_count(std::size_t points) {
  if (points == 0) throw InputError("a cloud of 0 points, expected at least 1");
  if (points > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("a cloud of " + std::to_string(points) + " points, expected fewer than 2^32");
  }
}

void check_numbers(const float* numbers, std::size_t points, std::size_t channels) {
  int broken = 0;
  for (std::size_t i = 0; i < points * channels; ++i) broken |= !(std::abs(numbers[i]) <= kLargest);
  if (broken) fail_not_finite(numbers, points, channels);
}

Cloud split_into_blocks(const float* numbers, std::size_t points, std::size_t channels, std::size_t lanes) {
  Cloud cloud{points, (points + lanes - 1) / lanes, {}};
  cloud.rows.resize(cloud.blocks * channels * lanes);
  for (std::size_t block = 0; block < cloud.blocks; ++block) {
    const std::size_t valid = std::min(lanes, points - block * lanes);
    const float* from = numbers + block * lanes * channels;
    float* rows = cloud.rows.data() + block * channels * lanes;
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < valid; ++i) rows[c * lanes + i] = from[i * channels + c];
    }
  }
  return cloud;
}

// Sums and maxima run in kStride independent lanes, combined at the end: the same result on every machine, and no long
// chain of dependent operations.
void normalize(Cloud& cloud, std::size_t channels, std::size_t lanes, Normalize how) {
  if (how == Normalize::none) return;
  const auto each_group = [&](const auto& work) {
    for (std::size_t block = 0; block < cloud.blocks; ++block) {
      float* rows = cloud.rows.data() + block * channels * lanes;
      const std::size_t valid = std::min(lanes, cloud.points - block * lanes);
      std::size_t start = 0;
      for (; start + kStride <= valid; start += kStride) work(rows + start, kStride);
      if (start < valid) work(rows + start, valid - start);
    }
  };
  double center[3] = {};
  for (std::size_t c = 0; c < 3 && how == Normalize::mean; ++c) {
    double sums[kStride] = {};
    each_group([&](const float* row, std::size_t count) {
      for (std::size_t j = 0; j < count; ++j) sums[j] += double{row[c * lanes + j]};
    });
    for (const double sum : sums) center[c] += sum;
    center[c] /= static_cast<double>(cloud.points);
  }
  for (std::size_t c = 0; c < 3 && how == Normalize::box; ++c) {
    float low[kStride], high[kStride];
    std::fill_n(low, kStride, cloud.rows[c * lanes]);
    std::fill_n(high, kStride, cloud.rows[c * lanes]);
    each_group([&](const float* row, std::size_t count) {
      for (std::size_t j = 0; j < count; ++j) {
        low[j] = std::min(low[j], row[c * lanes + j]);
        high[j] = std::max(high[j], row[c * lanes + j]);
      }
    });
    const float least = *std::min_element(low, low + kStride), most = *std::max_element(high, high + kStride);
    center[c] = 0.5 * (double{least} + double{most}) + 0.0;  // -0 becomes +0
  }
  double squares[kStride] = {};
  each_group([&](const float* row, std::size_t count) {
    for (std::size_t j = 0; j < count; ++j) {
      const double x = double{row[j]} - center[0], y = double{row[lanes + j]} - center[1];
      const double z = double{row[2 * lanes + j]} - center[2];
      squares[j] = std::max(squares[j], x * x + y * y + z * z);
    }
  });
  const double farthest = *std::max_element(squares, squares + kStride);
  const double scale = farthest > 0 ? 1 / std::sqrt(farthest) : 1;
  each_group([&](float* row, std::size_t count) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t j = 0; j < count; ++j) {
        row[c * lanes + j] = static_cast<float>((double{row[c * lanes + j]} - center[c]) * scale);
      }
    }
  });
}

}  // namespace bipointnet
