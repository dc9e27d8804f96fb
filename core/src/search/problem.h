// The operands of one search: places on their common grid, ranks, keys.
#pragma once

#include <cstdint>
#include <vector>

#include "search/grid.h"

namespace bipointnet::search {

class Problem {
 public:
  // Throws InputError.
  Problem(Rows centers, Rows points, Rows ties);

  std::size_t channels, center_count, point_count;
  std::size_t stride;  // doubles per row of places; with many channels a multiple of kDoublePad, padded with zeros
  Grid grid;
  bool same;                         // whether the centers are the points
  Aligned<double> centers, points;   // places, row-major; `centers` is empty if they are the points
  std::vector<std::uint32_t> order;  // rank -> index of the point
  std::uint64_t room;                // the bits of a key that hold the rank

  const double* point(std::size_t i) const { return points.data() + i * stride; }
  const double* center(std::size_t i) const { return (same ? points : centers).data() + i * stride; }
  bool many_channels() const { return channels > kFewChannels; }

  // Keys and their parts. D' is D without the bits of the rank; `most` is the largest number with the same D'.
  std::int64_t key(double square, std::size_t rank) const;
  std::uint32_t rank(std::int64_t key) const {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(key) & room);
  }
  double square(std::int64_t key) const;
  double most(double square) const;

 private:
  static constexpr std::size_t kFewChannels = 8;  // for which boxes help
};

}  // namespace bipointnet::search
