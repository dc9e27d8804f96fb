#include <algorithm>
#include <cmath>
#include <limits>

#include "search/blocks.h"
#include "search/problem.h"

namespace bipointnet::search {
namespace {

// The gaps of all points: the smallest D to the points chosen so far.
class Gaps {
 public:
  Gaps(const SearchKernels& kernels, const Problem& problem)
      : kernels_(kernels),
        problem_(problem),
        blocks_(problem),
        ranks_(blocks_.ranks(problem)),
        gaps_(blocks_.padded()),
        most_(static_cast<std::size_t>(blocks_.points().stride)) {
    forget();
  }

  // As if no point was chosen. Pads never have the largest gap.
  void forget() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::fill(gaps_.begin(), gaps_.end(), -1.0);
    std::fill_n(gaps_.begin(), blocks_.count(), kInfinity);
    std::fill(most_.begin(), most_.end(), -1.0);
    std::fill_n(most_.begin(), blocks_.points().blocks, kInfinity);
  }

  // Chooses a place; returns the index of the point that is then farthest, and sets its gap.
  std::uint32_t choose(const double* place, double* gap) {
    const Farthest next = kernels_.update_gaps(blocks_.points(), ranks_.data(), place, gaps_.data(), most_.data());
    *gap = next.gap;
    return blocks_.order()[static_cast<std::size_t>(next.position)];
  }

  // The point that is farthest from the centroid.
  std::uint32_t first() {
    std::vector<double> centroid(problem_.channels);
    for (std::size_t i = 0; i < problem_.point_count; ++i) {
      for (std::size_t c = 0; c < problem_.channels; ++c) centroid[c] += problem_.center(i)[c];
    }
    for (double& sum : centroid) sum = std::nearbyint(sum / static_cast<double>(problem_.point_count));
    double gap;
    const std::uint32_t point = choose(centroid.data(), &gap);
    forget();
    return point;
  }

 private:
  const SearchKernels& kernels_;
  const Problem& problem_;
  Blocks blocks_;
  Labels ranks_;
  Aligned<double> gaps_, most_;
};

// The points that were not chosen, in the order of their ranks, until `count` are chosen.
void choose_copies(const Problem& problem, std::size_t count, std::vector<std::uint32_t>& chosen) {
  std::vector<bool> taken(problem.point_count);
  for (const std::uint32_t point : chosen) taken[point] = true;
  for (std::size_t rank = 0; chosen.size() < count; ++rank) {
    if (!taken[problem.order[rank]]) chosen.push_back(problem.order[rank]);
  }
}

}  // namespace

std::vector<std::uint32_t> farthest_points(const Kernels& kernels, Rows points, std::size_t count, Order order) {
  const bool by_index = order == Order::index;
  const Problem problem(points, points, by_index ? Rows{} : points);
  if (!by_index) count = std::min(count, points.count);
  Gaps gaps(kernels.search, problem);
  std::vector<std::uint32_t> chosen{by_index ? 0 : gaps.first()};
  chosen.reserve(count);
  while (chosen.size() < count) {
    double gap;
    const std::uint32_t next = gaps.choose(problem.center(chosen.back()), &gap);
    if (gap == 0) break;
    chosen.push_back(next);
  }
  if (by_index) {
    chosen.resize(count, 0);
  } else {
    choose_copies(problem, count, chosen);
  }
  return chosen;
}

}  // namespace bipointnet::search
