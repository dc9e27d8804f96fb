// In many channels, distances are first measured on a coarse grid, in integers of 16 bits, and then exactly for the few
// points that can be among the nearest.
//
// Let u be the coarse unit in places, a and b two places, a* and b* their coarse places. A coarse place is at most
// E = u sqrt(channels) / 2 away from its place. So, by the triangle inequality,
//
//     u |a* - b*| - 2 E <= |a - b| <= u |a* - b*| + 2 E.
//
// If `wanted` points have a coarse distance of at most t, then `wanted` points have a distance of at most u t + 2 E.
// The nearest points have no larger distance, and so a coarse distance of at most t + 4 E / u.
//
// Coarse places are measured from the mean place. u is a power of two such that their norms are at most 2^14: then they
// fit into 16 bits, and by the inequality of Cauchy and Schwarz every sum of products is at most 2^28, every squared
// distance at most 2^30.
#include "search/features.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/threads.h"
#include "search/smallest.h"

namespace bipointnet::search {
namespace {

constexpr std::size_t kCentersAtOnce = 4 * kCoarseRows, kPanel = kPanelPoints;
constexpr std::size_t kPointsAtOnce = 1024;  // a multiple of kPanel
constexpr double kMostNorm = 0x1p14;
constexpr std::int32_t kFar = 0x7fffffff - 0x10000000;  // with the norm of a center, the distance of a pad; no overflow
constexpr double kRounder = 0x1.8p52;                   // adding and subtracting it rounds a number below 2^51

class Coarse {
 public:
  Coarse(const SearchKernels& kernels, const Problem& problem);

  std::size_t pairs() const { return pairs_; }

  // The points from number `first` on, in the order of their ranks.
  CoarsePoints points(std::size_t first) const {
    return {static_cast<int>(pairs_), panels_.data() + first * pairs_, norms_.data() + first};
  }

  // Packs the coarse place of a place; returns its squared norm.
  std::int32_t pack(const double* place, std::int32_t* pairs) const;

  // The same for the point of a rank, which is packed already.
  std::int32_t copy(std::size_t rank, std::int32_t* pairs) const {
    const std::int32_t* panel = panels_.data() + rank / kPanel * kPanel * pairs_ + rank % kPanel;
    for (std::size_t k = 0; k < pairs_; ++k) pairs[k] = panel[k * kPanel];
    return norms_[rank];
  }

  // The largest squared distance of the nearest points, if enough points have a squared coarse distance <= square.
  double exact_bound(std::int32_t square) const {
    const double reach = unit_ * std::sqrt(static_cast<double>(square)) + 2 * error_;
    return reach * reach * kMargin;
  }

  // The largest squared coarse distance of a point with D <= bound.
  std::int32_t coarse_bound(double bound) const {
    const double reach = (std::sqrt(bound) + 2 * error_) / unit_;
    return static_cast<std::int32_t>(std::min(reach * reach * kMargin + 1, static_cast<double>(kFar) - 1));
  }

 private:
  static constexpr double kMargin = 1 + 0x1p-40;  // far more than the rounding of these few operations

  std::size_t channels_, pairs_;
  Aligned<double> origin_;
  double unit_ = 1, error_ = 0;
  Aligned<std::int32_t> panels_, norms_;
};

Coarse::Coarse(const SearchKernels& kernels, const Problem& problem)
    : channels_(problem.points.channels), pairs_((problem.points.channels + 1) / 2), origin_(problem.points.stride) {
  const std::size_t count = problem.points.count, padded = (count + kPanel - 1) / kPanel * kPanel;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < channels_; ++c) origin_[c] += problem.point(i)[c];
  }
  for (double& x : origin_) x = x / static_cast<double>(count) + kRounder - kRounder;
  double largest = 0;
  const auto measure = [&](const double* place) {
    largest = std::max(largest, kernels.square(place, origin_.data(), static_cast<int>(problem.points.stride)));
  };
  for (std::size_t i = 0; i < count; ++i) measure(problem.point(i));
  for (std::size_t i = 0; i < problem.center_count && !problem.same; ++i) measure(problem.center(i));
  const double rounding = std::sqrt(static_cast<double>(channels_)) / 2;
  while (std::sqrt(largest) / unit_ + rounding > kMostNorm) unit_ *= 2;
  if (unit_ > 1) error_ = unit_ * rounding;

  panels_.resize(checked_product(padded, pairs_));
  norms_.assign(padded, kFar);
  std::vector<std::int32_t> row(pairs_);
  for (std::size_t rank = 0; rank < count; ++rank) {
    norms_[rank] = pack(problem.point(problem.points.order[rank]), row.data());
    std::int32_t* panel = panels_.data() + rank / kPanel * kPanel * pairs_ + rank % kPanel;
    for (std::size_t k = 0; k < pairs_; ++k) panel[k * kPanel] = row[k];
  }
}

std::int32_t Coarse::pack(const double* place, std::int32_t* pairs) const {
  const double scale = 1 / unit_;
  std::int32_t norm = 0;
  pairs[pairs_ - 1] = 0;
  auto* numbers = reinterpret_cast<unsigned char*>(pairs);
  for (std::size_t c = 0; c < channels_; ++c) {
    const auto number = static_cast<std::int16_t>((place[c] - origin_[c]) * scale + kRounder - kRounder);
    std::memcpy(numbers + c * sizeof number, &number, sizeof number);
    norm += number * number;
  }
  return norm;
}

// The nearest points of a few centers; used by one thread.
class Search {
 public:
  Search(const SearchKernels& kernels, const Problem& problem, const Coarse& coarse, std::size_t wanted)
      : kernels_(kernels),
        problem_(problem),
        coarse_(coarse),
        wanted_(wanted),
        centers_(kCentersAtOnce * coarse.pairs()),
        norms_(kCentersAtOnce),
        squares_(kCoarseRows * kPointsAtOnce),
        places_(kPointsAtOnce),
        memory_(kCentersAtOnce * Smallest::memory(wanted)),
        selected_(wanted) {
    for (std::size_t i = 0; i < kCentersAtOnce; ++i) {
      found_.emplace_back(kernels, problem.points.room, wanted, memory_.data() + i * Smallest::memory(wanted));
    }
  }

  // Centers that are the points are numbered by their ranks, others by their indices.
  void run(std::size_t begin, std::size_t end, const PutKeys& put) {
    for (std::size_t i = begin; i < end; ++i) {
      std::int32_t* pairs = centers_.data() + (i - begin) * coarse_.pairs();
      norms_[i - begin] = problem_.same ? coarse_.copy(i, pairs) : coarse_.pack(problem_.center(i), pairs);
      found_[i - begin].clear();
    }
    for (std::size_t first = 0; first < problem_.points.count; first += kPointsAtOnce) {
      for (std::size_t row = 0; row < end - begin; row += kCoarseRows) {
        visit(begin, row, std::min<std::size_t>(kCoarseRows, end - begin - row), first);
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      found_[i - begin].select(true, selected_.data());
      put(index(i), selected_.data());
    }
  }

 private:
  std::size_t index(std::size_t i) const { return problem_.same ? problem_.points.order[i] : i; }

  // The centers from number begin + row on and the points from rank `first` on.
  void visit(std::size_t begin, std::size_t row, std::size_t rows, std::size_t first) {
    const std::size_t count = std::min(kPointsAtOnce, problem_.points.count - first);
    const std::size_t padded = (count + kPanel - 1) / kPanel * kPanel;
    kernels_.coarse_squares(coarse_.points(first), static_cast<int>(padded / kPanel),
                            centers_.data() + row * coarse_.pairs(), norms_.data() + row, static_cast<int>(rows),
                            squares_.data());
    for (std::size_t r = 0; r < rows; ++r) {
      const double* center = problem_.center(index(begin + row + r));
      visit(center, squares_.data() + r * padded, first, count, padded, found_[row + r]);
    }
  }

  void visit(const double* center, const std::int32_t* squares, std::size_t first, std::size_t count,
             std::size_t padded, Smallest& found) {
    double bound = found.bound();
    if (count >= wanted_) {
      const std::int32_t square =
          kernels_.bound_of_smallest(squares, static_cast<int>(padded), static_cast<int>(wanted_));
      bound = std::min(bound, problem_.most(coarse_.exact_bound(square)));
    }
    const int near = kernels_.places_within(squares, static_cast<int>(padded), coarse_.coarse_bound(bound),
                                            places_.data());
    for (int i = 0; i < near; ++i) {
      const std::size_t rank = first + places_[static_cast<std::size_t>(i)];
      const double* point = problem_.point(problem_.points.order[rank]);
      found.add(problem_.key(kernels_.square(center, point, static_cast<int>(problem_.points.stride)), rank));
    }
  }

  const SearchKernels& kernels_;
  const Problem& problem_;
  const Coarse& coarse_;
  std::size_t wanted_;
  Aligned<std::int32_t> centers_, norms_, squares_;
  std::vector<std::uint32_t> places_;
  std::vector<std::int64_t> memory_, selected_;
  std::vector<Smallest> found_;
};

}  // namespace

void nearest_features(const Kernels& kernels, const Problem& problem, std::size_t wanted, unsigned threads,
                      const PutKeys& put) {
  const Coarse coarse(kernels.search, problem);
  parallel_for((problem.center_count + kCentersAtOnce - 1) / kCentersAtOnce, threads, [&](std::size_t part) {
    const std::size_t begin = part * kCentersAtOnce;
    Search(kernels.search, problem, coarse, wanted)
        .run(begin, std::min(begin + kCentersAtOnce, problem.center_count), put);
  });
}

}  // namespace bipointnet::search
