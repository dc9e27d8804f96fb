#include "engine/workspace.h"

#include <algorithm>

#include "engine/pooled.h"

namespace bipointnet {
namespace {

constexpr std::size_t kMaxKnownThresholds = 8;
constexpr std::size_t kMaxIdleBuffers = 64;
constexpr std::size_t kMaxIdleBytes = std::size_t{1} << 23;  // per idle state
constexpr std::size_t kMaxIdleCodes = std::size_t{1} << 20;  // bytes per idle buffers

std::size_t bytes_of(const Storage& storage) {
  return 4 * (storage.elements.capacity() + storage.rows.capacity() + storage.indices.capacity() +
              storage.counts.capacity()) +
         8 * (storage.words.capacity() + storage.slices.capacity());
}

}  // namespace

// The scans of a robot have a different size each time, so this must be cheap.
std::shared_ptr<const Thresholds> Workspace::thresholds(std::size_t operation, std::size_t n) {
  {
    const Lock lock(mutex_);
    for (const auto& known : known_[operation].thresholds) {
      if (known.first == n) return known.second;
    }
  }
  auto made = new_thresholds(operation, n);
  const Lock lock(mutex_);
  auto& known = known_[operation].thresholds;
  if (known.size() == kMaxKnownThresholds) known.erase(known.begin());
  known.emplace_back(n, made);
  return made;
}

std::shared_ptr<const Thresholds> Workspace::new_thresholds(std::size_t operation, std::size_t n) const {
  return std::make_shared<const Thresholds>(
      plan_.operations[operation].bitsliced[0].thresholds(max_thresholds(network_.operations[operation], n)));
}

std::shared_ptr<const GroupThresholds> Workspace::group_thresholds(std::size_t operation, std::size_t most) {
  {
    const Lock lock(mutex_);
    const auto& known = known_[operation].groups;
    if (known != nullptr && known->most >= most) return known;
  }
  const Operation& pool = network_.operations[operation];
  const int levels = plan_.operations[operation].bitsliced[0].levels();
  auto made = std::make_shared<GroupThresholds>();
  made->most = most;
  made->alike.resize(most + 1);
  made->codes.resize(checked_product(size(pool.outputs), most + 1));
  for (std::size_t n = 1; n <= most; ++n) {
    const std::vector<int> thresholds = max_thresholds(pool, n);
    made->alike[n] = plan_.operations[operation].bitsliced[0].thresholds(thresholds);
    const std::vector<std::uint32_t> codes = threshold_codes(thresholds, pool.inputs, levels);
    std::copy(codes.begin(), codes.end(), made->codes.begin() + static_cast<std::ptrdiff_t>(n * codes.size()));
  }
  const Lock lock(mutex_);
  known_[operation].groups = made;
  return made;
}

std::unique_ptr<BlockBuffers> Workspace::acquire_buffers() {
  {
    const Lock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<BlockBuffers> buffers = std::move(idle_.back());
      idle_.pop_back();
      return buffers;
    }
  }
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes), width = lanes / 64;
  auto buffers = std::make_unique<BlockBuffers>();
  buffers->floats.resize(plan_.float_channels * lanes);
  buffers->bits.resize(plan_.bit_channels * width);
  buffers->kernel_scratch.resize(plan_.scratch_slices * width);
  buffers->mask.resize(width);
  buffers->float_values.resize(network_.values.size());
  buffers->bit_values.resize(network_.values.size());
  buffers->sums.resize(network_.operations.size());
  for (auto* numbers : {&buffers->own, &buffers->source, &buffers->parent, &buffers->like}) {
    numbers->resize(lanes);
  }
  return buffers;
}

void Workspace::release_buffers(std::unique_ptr<BlockBuffers> buffers) {
  const Lock lock(mutex_);
  if (idle_.size() < kMaxIdleBuffers && buffers->codes.bytes() <= kMaxIdleCodes) idle_.push_back(std::move(buffers));
}

std::unique_ptr<State> Workspace::acquire_state() {
  {
    const Lock lock(mutex_);
    if (!idle_states_.empty()) {
      std::unique_ptr<State> state = std::move(idle_states_.back());
      idle_states_.pop_back();
      return state;
    }
  }
  auto state = std::make_unique<State>();
  const std::size_t operations = network_.operations.size();
  state->values.resize(network_.values.size());
  state->pools.resize(operations);
  state->groups.resize(operations);
  state->distinct.resize(operations);
  state->rows.resize(operations);
  state->reduced.resize(operations);
  state->matrices.resize(operations);
  return state;
}

void Workspace::release_state(std::unique_ptr<State> state) noexcept {
  std::size_t bytes = 0;
  for (const Storage& storage : state->values) bytes += bytes_of(storage);
  for (const CodeSet& rows : state->rows) bytes += rows.bytes();
  bytes += state->codes.bytes();
  const Lock lock(mutex_);
  if (bytes <= kMaxIdleBytes && idle_states_.size() < idle_states_.capacity()) idle_states_.push_back(std::move(state));
}

}  // namespace bipointnet
