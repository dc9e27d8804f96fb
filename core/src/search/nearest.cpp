#include <algorithm>

#include "search/nearest_keys.h"

namespace bipointnet::search {

Groups Searches::nearest(Rows centers, Rows points, Rows ties, std::size_t slots, std::size_t dilation) {
  Points& known = prepare(points, centers);
  known.rank(ties);
  const Problem problem(known, centers);
  const std::size_t wanted = std::min(checked_product(slots, dilation), points.count);
  const std::size_t found = (wanted + dilation - 1) / dilation;
  Groups groups{slots, std::vector<std::uint32_t>(checked_product(centers.count, slots)),
                std::vector<std::uint32_t>(centers.count, static_cast<std::uint32_t>(found))};
  nearest_keys(kernels_, problem, wanted, threads_, [&](std::size_t center, const std::int64_t* keys) {
    std::uint32_t* group = groups.indices.data() + center * slots;
    for (std::size_t j = 0; j < found; ++j) group[j] = known.order[problem.label(keys[j * dilation])];
    std::fill(group + found, group + slots, group[0]);
  });
  return groups;
}

}  // namespace bipointnet::search
