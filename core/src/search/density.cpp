#include <algorithm>

#include "engine/workers.h"
#include "search/blocks.h"
#include "search/problem.h"

namespace bipointnet::search {

void density(const Kernels& kernels, Rows points, double bandwidth, unsigned threads, float* densities) {
  constexpr std::size_t kCentersAtOnce = 64;
  constexpr double kRootOfTwoPi = 2.5066282746310002;
  const Problem problem(points, points, Rows{});
  const Blocks blocks(problem);
  const double ratio = problem.grid.step() / bandwidth, factor = ratio * ratio * -0.5;
  const double divisor = 0x1p30 * static_cast<double>(points.count) * bandwidth * kRootOfTwoPi;
  parallel_for((points.count + kCentersAtOnce - 1) / kCentersAtOnce, threads, [&](std::size_t part) {
    const std::size_t begin = part * kCentersAtOnce, end = std::min(begin + kCentersAtOnce, points.count);
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t sum = kernels.search.sum_density(blocks.points(), problem.center(i), factor);
      densities[i] = static_cast<float>(static_cast<double>(sum) / divisor);
    }
  });
}

}  // namespace bipointnet::search
