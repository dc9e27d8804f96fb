#include <algorithm>

#include "search/nearest_keys.h"

namespace bipointnet::search {

Groups nearest(const Kernels& kernels, Rows centers, Rows points, Rows ties, std::size_t slots, std::size_t dilation,
               unsigned threads) {
  const Problem problem(centers, points, ties);
  const std::size_t wanted = std::min(checked_product(slots, dilation), points.count);
  const std::size_t found = (wanted + dilation - 1) / dilation;
  Groups groups{slots, std::vector<std::uint32_t>(checked_product(centers.count, slots)),
                std::vector<std::uint32_t>(centers.count, static_cast<std::uint32_t>(found))};
  nearest_keys(kernels, problem, wanted, threads, [&](std::size_t center, const std::int64_t* keys) {
    std::uint32_t* group = groups.indices.data() + center * slots;
    for (std::size_t j = 0; j < found; ++j) group[j] = problem.order[problem.rank(keys[j * dilation])];
    std::fill(group + found, group + slots, group[0]);
  });
  return groups;
}

}  // namespace bipointnet::search
