#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "engine/threads.h"
#include "search/candidates.h"
#include "search/problem.h"

namespace bipointnet::search {
namespace {

constexpr std::size_t kCentersAtOnce = 64;

// The largest D of a point inside. D' step^2, rounded to float32, does not decrease with D, so the largest D' inside is
// found by bisection over the bits of D' without those of the rank.
double largest_inside(const Problem& problem, double radius) {
  const double step = problem.points.grid.step();
  const auto limit = static_cast<float>(radius * radius);
  const auto inside = [&](std::int64_t key) {
    return static_cast<float>(problem.square(key) * (step * step)) <= limit;
  };
  std::int64_t largest;
  std::memcpy(&largest, &kNoBound, sizeof largest);
  std::int64_t in = 0, unit = static_cast<std::int64_t>(problem.points.room) + 1, out = largest / unit + 1;  // in units
  while (out - in > 1) {
    const std::int64_t middle = in + (out - in) / 2;
    (inside(middle * unit) ? in : out) = middle;
  }
  return problem.most(problem.square(in * unit));
}

// What decides between equal distances: the label of the point at each position in the blocks, and the index of the
// point with each label.
struct Names {
  const Labels& labels;
  const std::vector<std::uint32_t>& index_of;
};

// The neighbors of all centers.
struct Ball {
  const SearchKernels& kernels;
  const Problem& problem;
  double bound;  // the largest D inside
  bool by_label, sorted;
  unsigned threads;

  // Fills the groups: with the points inside or, where none is, with the nearest one. If `needs_ranks` is given, names
  // are not ranks. When a group needs ranks, it becomes true, and the search ends early.
  void fill(Names inside, Names nearest, Groups& groups, std::atomic<bool>* needs_ranks) const {
    const Blocks& blocks = problem.points.blocks();
    const std::uint64_t room = problem.points.room;
    const std::size_t slots = groups.slots, count = problem.center_count;
    parallel_for((count + kCentersAtOnce - 1) / kCentersAtOnce, threads, [&](std::size_t part) {
      if (needs_ranks != nullptr && *needs_ranks) return;
      Candidates many(kernels, blocks, inside.labels, room, slots, by_label);
      Candidates one(kernels, blocks, nearest.labels, room, 1);
      const std::size_t begin = part * kCentersAtOnce, end = std::min(begin + kCentersAtOnce, count);
      for (std::size_t i = begin; i < end; ++i) {
        const bool any = many.find(problem.center(i), bound) > 0;
        if (!any) one.find(problem.center(i), kNoBound);
        Candidates& found = any ? many : one;
        const std::vector<std::uint32_t>& index_of = (any ? inside : nearest).index_of;
        const std::size_t size = found.select(sorted);
        std::uint32_t* group = groups.indices.data() + i * slots;
        for (std::size_t j = 0; j < size; ++j) group[j] = index_of[problem.label(found.selected(j))];
        groups.counts[i] = static_cast<std::uint32_t>(size);
        std::fill(group + size, group + slots, group[0]);
        if (needs_ranks == nullptr) continue;
        if (found.tied()) *needs_ranks = true;
        if (*needs_ranks) return;
      }
    });
  }
};

}  // namespace

Groups Searches::ball(Rows centers, Rows points, Rows ties, std::size_t slots, double radius, Order order,
                      bool sorted) {
  Points& known = prepare(points, centers);
  const Problem problem(known, centers);
  const bool by_index = order == Order::index;
  const Ball ball{kernels_.search, problem, largest_inside(problem, radius), by_index, sorted, threads_};
  Groups groups{slots, std::vector<std::uint32_t>(checked_product(centers.count, slots)),
                std::vector<std::uint32_t>(centers.count)};
  const Blocks& blocks = known.blocks();
  Labels numbers(blocks.padded());  // 0, 1, ...
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (!sorted && !by_index && known.are(ties)) {
    const Names positions{numbers, blocks.order()};
    std::atomic<bool> needs_ranks(false);
    ball.fill(positions, positions, groups, &needs_ranks);
    if (!needs_ranks) return groups;
  }
  known.rank(ties);
  const Names ranks{known.ranks(), known.order};
  if (by_index) {
    const Labels indices = blocks.indices();
    ball.fill({indices, numbers}, ranks, groups, nullptr);
  } else {
    ball.fill(ranks, ranks, groups, nullptr);
  }
  return groups;
}

}  // namespace bipointnet::search
