// The smallest of many keys of one center.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/search_kernels.h"

namespace bipointnet::search {

constexpr double kNoBound = std::numeric_limits<double>::max();  // finite: pads of blocks are infinitely far away

// Keeps more keys than are wanted, in the memory of its owner; when that is full, it drops the largest.
class Smallest {
 public:
  // `wanted` keys at most are selected. `room` are the bits of a key that are not of its distance.
  Smallest(const SearchKernels& kernels, std::uint64_t room, std::size_t wanted, std::int64_t* memory)
      : kernels_(&kernels), room_(room), wanted_(wanted), keys_(memory) {}

  // Keys of memory that the constructor needs.
  static std::size_t memory(std::size_t wanted) { return capacity(wanted) + kKeyPad; }

  void clear() {
    found_ = 0;
    bound_ = kNoBound;
    tied_ = false;
  }

  void add(std::int64_t key) {
    if (found_ == capacity(wanted_)) drop();
    keys_[found_++] = key;
  }

  // For adding many keys at once: write up to free() keys to end(), then call added(count).
  std::int64_t* end() { return keys_ + found_; }
  std::size_t free() const { return capacity(wanted_) - found_; }
  void added(std::size_t count) { found_ += count; }

  std::size_t found() const { return found_; }
  double bound() const { return bound_; }  // no larger distance is needed, once keys have been dropped

  // Keeps the `wanted` smallest keys; there must be more.
  void drop();

  // After select(false): whether labels may have decided, because distances were equal, which keys were kept or which
  // one is first.
  bool tied() const { return tied_; }

  // Writes the `wanted` smallest keys, or all if there are fewer: ascending or, if that is not needed, only with the
  // smallest one first. Returns their number.
  std::size_t select(bool ascending, std::int64_t* selected);

 private:
  bool same_distance(std::int64_t a, std::int64_t b) const {
    return (static_cast<std::uint64_t>(a ^ b) & ~room_) == 0;
  }
  static std::size_t capacity(std::size_t wanted) { return 2 * wanted + 4 * kBlockPoints; }

  const SearchKernels* kernels_;
  std::uint64_t room_;
  std::size_t wanted_, found_ = 0;
  double bound_ = kNoBound;
  bool tied_ = false;
  std::int64_t* keys_;
};

}  // namespace bipointnet::search
