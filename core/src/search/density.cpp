#include <algorithm>
#include <vector>

#include "engine/aligned.h"
#include "engine/threads.h"
#include "search/points.h"

namespace bipointnet::search {

void Searches::density(Rows points, double bandwidth, float* densities) {
  constexpr double kRootOfTwoPi = 2.5066282746310002;
  Points& known = prepare(points, points);
  const Blocks& blocks = known.blocks();
  const double ratio = known.grid.step() / bandwidth, factor = ratio * ratio * -0.5;
  const double divisor = 0x1p30 * static_cast<double>(points.count) * bandwidth * kRootOfTwoPi;
  const auto count = static_cast<std::size_t>(blocks.points().blocks), workers = std::min<std::size_t>(threads_, count);
  std::vector<Aligned<double>> sums(workers);
  parallel_for(workers, workers, [&](std::size_t worker) {
    sums[worker].resize(blocks.padded());
    for (std::size_t block = worker; block < count; block += workers) {
      const std::size_t first = block * kBlockPoints, end = std::min<std::size_t>(first + kBlockPoints, points.count);
      for (std::size_t i = first; i < end; ++i) {
        sums[worker][i] += kernels_.search.sum_density(blocks.points(), known.place(blocks.order()[i]), factor,
                                                       static_cast<int>(block), sums[worker].data());
      }
    }
  });
  for (std::size_t i = 0; i < points.count; ++i) {
    double sum = 0;
    for (const Aligned<double>& own : sums) sum += own[i];
    densities[blocks.order()[i]] = static_cast<float>(sum / divisor);
  }
}

}  // namespace bipointnet::search
