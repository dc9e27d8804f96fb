#include <algorithm>
#include <cstring>

#include "engine/workers.h"
#include "search/blocks.h"
#include "search/candidates.h"
#include "search/order.h"
#include "search/problem.h"

namespace bipointnet::search {
namespace {

constexpr std::size_t kCentersAtOnce = 64;

// The largest D of a point inside. D' step^2, rounded to float32, does not decrease with D, so the largest D' inside is
// found by bisection over the bits of D' without those of the rank.
double largest_inside(const Problem& problem, double radius) {
  const double step = problem.grid.step();
  const auto limit = static_cast<float>(radius * radius);
  const auto inside = [&](std::int64_t key) {
    return static_cast<float>(problem.square(key) * (step * step)) <= limit;
  };
  std::int64_t largest;
  std::memcpy(&largest, &kNoBound, sizeof largest);
  std::int64_t in = 0, unit = static_cast<std::int64_t>(problem.room) + 1, out = largest / unit + 1;  // in units
  while (out - in > 1) {
    const std::int64_t middle = in + (out - in) / 2;
    (inside(middle * unit) ? in : out) = middle;
  }
  return problem.most(problem.square(in * unit));
}

}  // namespace

Groups ball(const Kernels& kernels, Rows centers, Rows points, Rows ties, std::size_t slots, double radius, Order order,
            bool sorted, unsigned threads) {
  const Problem problem(centers, points, ties);
  const Blocks blocks(problem);
  const Labels ranks = blocks.ranks(problem);
  const bool by_index = order == Order::index;
  const Labels labels = by_index ? blocks.indices() : Labels();
  const double bound = largest_inside(problem, radius);
  Groups groups{slots, std::vector<std::uint32_t>(checked_product(centers.count, slots)),
                std::vector<std::uint32_t>(centers.count)};
  parallel_for((centers.count + kCentersAtOnce - 1) / kCentersAtOnce, threads, [&](std::size_t part) {
    Candidates inside(kernels.search, blocks, by_index ? labels : ranks, problem.room, slots, by_index);
    Candidates nearest(kernels.search, blocks, ranks, problem.room, 1);
    const std::size_t begin = part * kCentersAtOnce, end = std::min(begin + kCentersAtOnce, centers.count);
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t* group = groups.indices.data() + i * slots;
      std::size_t found = 1;
      if (inside.find(problem.center(i), bound) > 0) {
        found = inside.select(sorted);
        for (std::size_t j = 0; j < found; ++j) {
          const auto label = problem.rank(inside.selected(j));
          group[j] = by_index ? label : problem.order[label];
        }
      } else {
        nearest.find(problem.center(i), kNoBound);
        nearest.select(true);
        group[0] = problem.order[problem.rank(nearest.selected(0))];
      }
      groups.counts[i] = static_cast<std::uint32_t>(found);
      std::fill(group + found, group + slots, group[0]);
    }
  });
  return groups;
}

}  // namespace bipointnet::search
