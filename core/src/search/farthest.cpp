#include <algorithm>
#include <cmath>
#include <limits>

#include "search/points.h"

namespace bipointnet::search {
namespace {

// The gaps of all points: the smallest D to the points chosen so far.
class Gaps {
 public:
  Gaps(const SearchKernels& kernels, Points& points, Rows ties)
      : kernels_(kernels),
        points_(points),
        ties_(ties),
        blocks_(points.blocks()),
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
    const auto update = [&] {
      return kernels_.update_gaps(blocks_.points(), ranks_, place, gaps_.data(), most_.data());
    };
    Farthest next = update();
    if (next.position < 0) {
      points_.rank(ties_);
      ranks_ = points_.ranks().data();
      next = update();
    }
    *gap = next.gap;
    return blocks_.order()[static_cast<std::size_t>(next.position)];
  }

  // The point that is farthest from the centroid.
  std::uint32_t first() {
    std::vector<double> centroid(points_.channels);
    for (std::size_t c = 0; c < points_.channels; ++c) {
      double even = 0, odd = 0;  // of integers up to 2^26: exact for up to 2^27 points
      const double* place = points_.places.data() + c;
      std::size_t i = 0;
      for (; i + 1 < points_.count; i += 2) {
        even += place[i * points_.stride];
        odd += place[(i + 1) * points_.stride];
      }
      if (i < points_.count) even += place[i * points_.stride];
      centroid[c] = std::nearbyint((even + odd) / static_cast<double>(points_.count));
    }
    double gap;
    const std::uint32_t point = choose(centroid.data(), &gap);
    forget();
    return point;
  }

 private:
  const SearchKernels& kernels_;
  Points& points_;
  Rows ties_;
  const Blocks& blocks_;
  const std::uint32_t* ranks_ = nullptr;  // once they are needed
  Aligned<double> gaps_, most_;
};

// The points that were not chosen, in the order of their ranks, until `count` are chosen.
void choose_copies(const Points& points, std::size_t count, std::vector<std::uint32_t>& chosen) {
  std::vector<bool> taken(points.count);
  for (const std::uint32_t point : chosen) taken[point] = true;
  for (std::size_t rank = 0; chosen.size() < count; ++rank) {
    if (!taken[points.order[rank]]) chosen.push_back(points.order[rank]);
  }
}

}  // namespace

std::vector<std::uint32_t> Searches::farthest_points(Rows points, std::size_t count, Order order) {
  const bool by_index = order == Order::index;
  const Rows ties = by_index ? Rows{} : points;
  Points& known = prepare(points, points);
  if (!by_index) count = std::min(count, points.count);
  Gaps gaps(kernels_.search, known, ties);
  std::vector<std::uint32_t> chosen{by_index ? 0 : gaps.first()};
  chosen.reserve(count);
  while (chosen.size() < count) {
    double gap;
    const std::uint32_t next = gaps.choose(known.place(chosen.back()), &gap);
    if (gap == 0) break;
    chosen.push_back(next);
  }
  if (by_index) {
    chosen.resize(count, 0);
  } else if (chosen.size() < count) {
    known.rank(ties);
    choose_copies(known, count, chosen);
  }
  return chosen;
}

}  // namespace bipointnet::search
