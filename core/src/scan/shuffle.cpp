#include "scan/shuffle.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace bipointnet::scan {
namespace {

using Ranked = std::pair<std::uint64_t, std::uint32_t>;

}  // namespace

void shuffle(std::vector<std::uint32_t>& indices) {
  std::vector<Ranked> all;
  all.reserve(indices.size());
  for (const std::uint32_t index : indices) all.push_back({rank_of(index), index});
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) indices[i] = all[i].second;
}

std::vector<std::uint32_t> shuffled(std::size_t count) {
  std::vector<std::uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0u);
  shuffle(indices);
  return indices;
}

}  // namespace bipointnet::scan
