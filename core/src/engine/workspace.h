// What the runs of a model reuse: thresholds per number of elements, and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/aligned.h"
#include "engine/code_set.h"
#include "engine/plan.h"
#include "engine/state.h"
#include "engine/threads.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// The memory that one thread needs to run a pass on blocks.
struct BlockBuffers {
  Aligned<float> floats, elements, more_elements;
  Aligned<std::uint64_t> bits, kernel_scratch, mask, fired, rows;
  std::vector<const float*> float_values;         // per value: where it is now
  std::vector<const std::uint64_t*> bit_values;
  Aligned<std::uint32_t> own, source, parent;  // per lane: numbers of elements
  Aligned<std::uint32_t> like;                 // per lane: the lane whose element it repeats, or itself
  Aligned<std::uint32_t> slot_signs, codes_of_groups;
  std::vector<int> largest;               // counts of agreements: groups x outputs
  std::vector<std::vector<double>> sums;  // per operation: of a group that is larger than a block
  CodeSet codes;                  // of the points that one thread encodes
  std::vector<CodeSet> code_rows;  // per operation: the rows that one thread collects for a pool
};

class Workspace {
 public:
  // All references must outlive this object.
  Workspace(const Network& network, const Plan& plan, const Kernels& kernels)
      : network_(network), plan_(plan), kernels_(kernels), known_(network.operations.size()) {
    idle_states_.reserve(kMaxIdleStates);  // so that release_state() cannot throw
  }

  // The thresholds of a max pool of bits over n elements.
  std::shared_ptr<const Thresholds> thresholds(std::size_t operation, std::size_t n);

  // The same without looking for a known one: numbers of distinct codes hardly repeat.
  std::shared_ptr<const Thresholds> new_thresholds(std::size_t operation, std::size_t n) const;

  // The same for every n up to `most`, or to more.
  std::shared_ptr<const GroupThresholds> group_thresholds(std::size_t operation, std::size_t most);

  std::unique_ptr<BlockBuffers> acquire_buffers();
  void release_buffers(std::unique_ptr<BlockBuffers> buffers);

  std::unique_ptr<State> acquire_state();
  void release_state(std::unique_ptr<State> state) noexcept;

 private:
  static constexpr std::size_t kMaxIdleStates = 8;

  struct Known {
    std::vector<std::pair<std::size_t, std::shared_ptr<const Thresholds>>> thresholds;  // by n
    std::shared_ptr<const GroupThresholds> groups;
  };

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  Mutex mutex_;  // guards all members below
  std::vector<Known> known_;  // per operation
  std::vector<std::unique_ptr<BlockBuffers>> idle_;
  std::vector<std::unique_ptr<State>> idle_states_;
};

}  // namespace bipointnet
