#include "scan/shuffle.h"

#include <algorithm>
#include <utility>

namespace bipointnet::scan {
namespace {

using Ranked = std::pair<std::uint64_t, std::uint32_t>;

template <class Indices>
std::vector<Ranked> ranked(std::size_t count, const Indices& index_of) {
  std::vector<Ranked> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = index_of(i);
    all[i] = {rank_of(index), index};
  }
  return all;
}

}  // namespace

void shuffle(std::vector<std::uint32_t>& indices) {
  std::vector<Ranked> all = ranked(indices.size(), [&](std::size_t i) { return indices[i]; });
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) indices[i] = all[i].second;
}

std::vector<std::uint32_t> shuffled(std::size_t count, std::size_t kept) {
  std::vector<Ranked> all = ranked(count, [](std::size_t i) { return static_cast<std::uint32_t>(i); });
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(kept, count));
  std::nth_element(all.begin(), end, all.end());
  std::sort(all.begin(), end);
  std::vector<std::uint32_t> indices;
  indices.reserve(static_cast<std::size_t>(end - all.begin()));
  for (auto each = all.begin(); each != end; ++each) indices.push_back(each->second);
  return indices;
}

}  // namespace bipointnet::scan
