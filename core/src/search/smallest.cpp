#include "search/smallest.h"

#include <algorithm>
#include <cstring>

namespace bipointnet::search {

void Smallest::drop() {
  const Border border = kernels_->select_keys(keys_, static_cast<int>(found_), static_cast<int>(wanted_));
  tied_ |= same_distance(border.below, border.above);
  found_ = wanted_;
  const std::uint64_t last = static_cast<std::uint64_t>(border.below) | room_;
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
    return count;
  }
  std::size_t first = 0, alike = 0;
  for (std::size_t i = 1; i < count; ++i) first = selected[i] < selected[first] ? i : first;
  std::swap(selected[0], selected[first]);
  for (std::size_t i = 1; i < count; ++i) alike += same_distance(selected[i], selected[0]);
  tied_ |= alike > 0;
  return count;
}

}  // namespace bipointnet::search
