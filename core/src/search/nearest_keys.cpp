#include "search/nearest_keys.h"

#include <algorithm>
#include <cmath>

#include "engine/threads.h"
#include "search/candidates.h"
#include "search/features.h"
#include "search/order.h"

namespace bipointnet::search {
namespace {

constexpr std::size_t kCentersAtOnce = 256;

double distance(const double* a, const double* b, std::size_t channels) {
  double sum = 0;
  for (std::size_t c = 0; c < channels; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

// Centers are visited along a curve. If `wanted` points are within r of one center, they are within r + s of the next,
// where s is the distance of the two centers; so this is a bound for it. It is enlarged by far more than the rounding
// of its computation, and then to the largest D of a key that a smaller rank could make the smaller one.
void nearest_in_blocks(const Kernels& kernels, const Problem& problem, std::size_t wanted, unsigned threads,
                       const PutKeys& put) {
  constexpr double kMargin = 1 + 0x1p-40;
  Points& points = problem.points;
  const Blocks& blocks = points.blocks();
  const Labels& ranks = points.ranks();
  const std::vector<std::uint32_t> path =
      problem.same ? blocks.order()
                   : along_curve(problem.centers, points.channels, points.stride, points.grid.bits());
  parallel_for((path.size() + kCentersAtOnce - 1) / kCentersAtOnce, threads, [&](std::size_t part) {
    Candidates candidates(kernels.search, blocks, ranks, points.room, wanted);
    const std::size_t begin = part * kCentersAtOnce, end = std::min(begin + kCentersAtOnce, path.size());
    double bound = kNoBound, radius = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double* center = problem.center(path[i]);
      if (i > begin) {
        const double reach = radius + distance(center, problem.center(path[i - 1]), points.channels);
        bound = problem.most(reach * reach * kMargin);
      }
      candidates.find(center, bound);
      candidates.select(true);
      put(path[i], candidates.selected());
      radius = std::sqrt(problem.most(problem.square(candidates.selected(wanted - 1))));
    }
  });
}

}  // namespace

void nearest_keys(const Kernels& kernels, const Problem& problem, std::size_t wanted, unsigned threads,
                  const PutKeys& put) {
  const auto search = problem.points.many_channels() ? nearest_features : nearest_in_blocks;
  search(kernels, problem, wanted, threads, put);
}

}  // namespace bipointnet::search
