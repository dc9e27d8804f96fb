#include "search/smallest.h"

#include <algorithm>
#include <cstring>

namespace bipointnet::search {

void Smallest::drop() {
  std::nth_element(keys_, keys_ + wanted_ - 1, keys_ + found_);
  found_ = wanted_;
  const std::uint64_t last = static_cast<std::uint64_t>(keys_[wanted_ - 1]) | room_;
  std::memcpy(&bound_, &last, sizeof bound_);
}

std::size_t Smallest::select(bool ascending, std::int64_t* selected) {
  const std::size_t count = std::min(found_, wanted_);
  if (ascending && found_ <= kMostSorted) {
    kernels_->sort_keys(keys_, static_cast<int>(found_), static_cast<int>(count), selected);
    return count;
  }
  if (found_ > wanted_) drop();
  std::copy_n(keys_, count, selected);
  if (ascending) {
    std::sort(selected, selected + count);
  } else {
    std::iter_swap(selected, std::min_element(selected, selected + count));
  }
  return count;
}

}  // namespace bipointnet::search
