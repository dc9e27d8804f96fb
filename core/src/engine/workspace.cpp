#include "engine/workspace.h"

#include <algorithm>
#include <cmath>

#include "engine/delta.h"

namespace bipointnet {
namespace {

constexpr std::size_t kMaxKnownThresholds = 8;
constexpr std::size_t kMaxIdleBuffers = 64;
constexpr std::size_t kMaxIdleWords = std::size_t{1} << 20;  // per idle block of slices
constexpr std::size_t kMaxIdleCodes = std::size_t{1} << 17;

}  // namespace

// The scans of a robot have a different size each time, so this must be cheap.
std::shared_ptr<const std::vector<Thresholds>> Workspace::thresholds(std::size_t points) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : known_thresholds_) {
      if (known.first == points) return known.second;
    }
  }
  auto made = std::make_shared<std::vector<Thresholds>>(network_.layers.size());
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
    (*made)[i] = plan_.layers[i].bitsliced->thresholds(threshold);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_thresholds_.size() == kMaxKnownThresholds) known_thresholds_.erase(known_thresholds_.begin());
  known_thresholds_.emplace_back(points, made);
  return made;
}

std::unique_ptr<BlockBuffers> Workspace::acquire_buffers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<BlockBuffers> buffers = std::move(idle_.back());
      idle_.pop_back();
      return buffers;
    }
  }
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes), width = lanes / 64;
  auto buffers = std::make_unique<BlockBuffers>();
  buffers->floats.resize(plan_.max_float_channels * lanes);
  buffers->more_floats.resize(plan_.max_float_channels * lanes);
  buffers->scales.resize(lanes);
  buffers->bits.resize(plan_.max_bit_channels * width);
  buffers->more_bits.resize(plan_.max_bit_channels * width);
  buffers->kernel_scratch.resize(static_cast<std::size_t>(kScratchSlices) * width);
  buffers->mask.resize(width);
  return buffers;
}

void Workspace::release_buffers(std::unique_ptr<BlockBuffers> buffers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < kMaxIdleBuffers && buffers->codes.capacity() <= kMaxIdleCodes) idle_.push_back(std::move(buffers));
}

Aligned<std::uint64_t> Workspace::acquire_slices() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_slices_.empty()) return {};
  Aligned<std::uint64_t> slices = std::move(idle_slices_.back());
  idle_slices_.pop_back();
  return slices;
}

void Workspace::release_slices(Aligned<std::uint64_t> slices) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (slices.empty() || slices.size() > kMaxIdleWords || idle_slices_.size() == idle_slices_.capacity()) return;
  idle_slices_.push_back(std::move(slices));
}

}  // namespace bipointnet
