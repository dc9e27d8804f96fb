#include "engine/workspace.h"

#include <algorithm>
#include <cmath>

#include "engine/delta.h"

namespace bipointnet {
namespace {

constexpr std::size_t kThresholdsKept = 8;
constexpr std::size_t kScratchesKept = 64;
constexpr std::size_t kWordsKept = std::size_t{1} << 20;  // of each
constexpr std::size_t kCodesKept = std::size_t{1} << 17;

}  // namespace

// A robot's scans have another size each time, so this is kept cheap.
std::shared_ptr<const std::vector<Starts>> Reuse::thresholds(std::size_t points) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : known_thresholds_) {
      if (known.first == points) return known.second;
    }
  }
  auto made = std::make_shared<std::vector<Starts>>(network_.layers.size());
  const double shift = delta(points);
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    if (layer.op != Op::bilinear_pool || layer.pool != Pool::max) continue;
    std::vector<int> threshold;
    threshold.reserve(layer.line.size() / 2);
    for (std::size_t m = 0; m < layer.line.size() / 2; ++m) {
      const double bound = std::ceil(layer.line[2 * m] + layer.line[2 * m + 1] * (layer.shifted ? shift : 0.0));
      threshold.push_back(static_cast<int>(std::min(std::max(bound, 0.0), layer.inputs + 1.0)));
    }
    (*made)[i] = plan_.layers[i].sliced->starts(threshold);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_thresholds_.size() == kThresholdsKept) known_thresholds_.erase(known_thresholds_.begin());
  known_thresholds_.emplace_back(points, made);
  return made;
}

std::unique_ptr<Scratch> Reuse::take_scratch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes), width = lanes / 64;
  auto scratch = std::make_unique<Scratch>();
  scratch->floats.resize(plan_.most_floats * lanes);
  scratch->more_floats.resize(plan_.most_floats * lanes);
  scratch->scales.resize(lanes);
  scratch->bits.resize(plan_.most_bits * width);
  scratch->more_bits.resize(plan_.most_bits * width);
  scratch->room.resize(static_cast<std::size_t>(kRoomSlices) * width);
  scratch->mask.resize(width);
  return scratch;
}

void Reuse::give_back(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < kScratchesKept && scratch->codes.room() <= kCodesKept) idle_.push_back(std::move(scratch));
}

Aligned<std::uint64_t> Reuse::take_slices() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_slices_.empty()) return {};
  Aligned<std::uint64_t> slices = std::move(idle_slices_.back());
  idle_slices_.pop_back();
  return slices;
}

void Reuse::give_back(Aligned<std::uint64_t> slices) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slices.empty() || slices.size() > kWordsKept || idle_slices_.size() == idle_slices_.capacity()) return;
  idle_slices_.push_back(std::move(slices));
}

}  // namespace bipointnet
