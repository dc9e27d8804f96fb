// What the runs of a model reuse: thresholds per number of points, and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/aligned.h"
#include "engine/code_set.h"
#include "engine/plan.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// The memory that one thread needs to run a pass on blocks of points.
struct BlockBuffers {
  Aligned<float> floats, more_floats, scales;
  Aligned<std::uint64_t> bits, more_bits, kernel_scratch, mask;
  CodeSet codes;
};

class Workspace {
 public:
  // All references must outlive this object.
  Workspace(const Network& network, const Plan& plan, const Kernels& kernels)
      : network_(network), plan_(plan), kernels_(kernels) {
    idle_slices_.reserve(kMaxIdleSlices);  // so that release_slices() cannot throw
  }

  // The thresholds of the pools for clouds of `points` points, one entry per layer.
  std::shared_ptr<const std::vector<Thresholds>> thresholds(std::size_t points);

  std::unique_ptr<BlockBuffers> acquire_buffers();
  void release_buffers(std::unique_ptr<BlockBuffers> buffers);

  // Memory of any size for the kept bits of points.
  Aligned<std::uint64_t> acquire_slices();
  void release_slices(Aligned<std::uint64_t> slices) noexcept;

 private:
  static constexpr std::size_t kMaxIdleSlices = 8;

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  std::mutex mutex_;  // guards all members below
  std::vector<std::pair<std::size_t, std::shared_ptr<const std::vector<Thresholds>>>> known_thresholds_;
  std::vector<std::unique_ptr<BlockBuffers>> idle_;
  std::vector<Aligned<std::uint64_t>> idle_slices_;
};

}  // namespace bipointnet
