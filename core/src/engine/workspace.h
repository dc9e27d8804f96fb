// What the runs of a model leave for the next ones: thresholds, and memory to work in.
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

// The memory that a thread needs to take blocks of points through a pass.
struct Scratch {
  Aligned<float> floats, more_floats, scales;
  Aligned<std::uint64_t> bits, more_bits, room, mask;
  CodeSet codes;
};

class Reuse {
 public:
  // All of them must outlive it.
  Reuse(const Network& network, const Plan& plan, const Kernels& kernels)
      : network_(network), plan_(plan), kernels_(kernels) {
    idle_slices_.reserve(kSlicesKept);  // so that giving back takes no memory, and cannot fail
  }

  // Where the pools of clouds of `points` points start counting, by layer.
  std::shared_ptr<const std::vector<Starts>> thresholds(std::size_t points);

  std::unique_ptr<Scratch> take_scratch();
  void give_back(std::unique_ptr<Scratch> scratch);

  // Memory for kept bits of points, of any size.
  Aligned<std::uint64_t> take_slices();
  void give_back(Aligned<std::uint64_t> slices) noexcept;

 private:
  static constexpr std::size_t kSlicesKept = 8;

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::pair<std::size_t, std::shared_ptr<const std::vector<Starts>>>> known_thresholds_;
  std::vector<std::unique_ptr<Scratch>> idle_;
  std::vector<Aligned<std::uint64_t>> idle_slices_;
};

}  // namespace bipointnet
