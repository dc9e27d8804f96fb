// The points near one center, by their keys.
#pragma once

#include <cstdint>
#include <vector>

#include "search/blocks.h"
#include "search/smallest.h"

namespace bipointnet::search {

// Reused for many centers by one thread.
class Candidates {
 public:
  // Labels are the low bits of the keys, those of `room`. At most `wanted` keys are needed of each center. `by_label`:
  // the smallest labels are needed, not the smallest keys; then keys are labels only.
  Candidates(const SearchKernels& kernels, const Blocks& blocks, const Labels& labels, std::uint64_t room,
             std::size_t wanted, bool by_label = false);

  // Finds the points with D <= bound: all of them or, if there are too many, at least those that are needed. Returns
  // their number.
  std::size_t find(const double* center, double bound);

  // Selects the smallest keys, as Smallest does. Returns their number.
  std::size_t select(bool ascending) { return smallest_.select(ascending, selected_.data()); }
  bool tied() const { return smallest_.tied(); }
  std::int64_t selected(std::size_t i) const { return selected_[i]; }
  const std::int64_t* selected() const { return selected_.data(); }

 private:
  const SearchKernels& kernels_;
  const PointBlocks& points_;
  const std::uint32_t* labels_;
  std::uint64_t room_;
  bool by_label_;
  std::vector<std::int64_t> memory_, selected_;
  Smallest smallest_;
};

}  // namespace bipointnet::search
