// One search: its points, the places of its centers, keys.
#pragma once

#include <cstdint>

#include "search/points.h"

namespace bipointnet::search {

class Problem {
 public:
  // The grid of the points must be that of the points and the centers.
  Problem(Points& points, Rows centers);

  Points& points;
  std::size_t center_count;
  bool same;                // whether the centers are the points
  Aligned<double> centers;  // places, row-major; empty if they are the points

  const double* point(std::size_t i) const { return points.place(i); }
  const double* center(std::size_t i) const { return same ? point(i) : centers.data() + i * points.stride; }

  // Keys and their parts. D' is D without the bits of the label, such as a rank; `most` is the largest number with the
  // same D'.
  std::int64_t key(double square, std::size_t label) const;
  std::uint32_t label(std::int64_t key) const {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) & points.room);
  }
  double square(std::int64_t key) const;
  double most(double square) const;
};

}  // namespace bipointnet::search
