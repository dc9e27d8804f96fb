// The points of a search: their places on the grid, their ranks, and their blocks. Searches in the same points share
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/blocks.h"
#include "search/grid.h"

namespace bipointnet::search {

class Points {
 public:
  // The grid is that of the points and the centers. Throws InputError.
  Points(Rows points, Rows centers);

  bool are(Rows rows) const { return same(rows, rows_); }  // in the same memory

  // Whether the grid is that of the points alone, and also that of the points and these centers.
  bool serve(Rows centers) const { return own_grid_ && (are(centers) || grid.covers(centers)); }

  // Ranks the points by `ties`; without numbers, ranks are indices. Throws InputError. It sorts, which takes longer
  // than some searches. So farthest points, and balls that need no order, rank the points only if distances are equal.
  void rank(Rows ties);

  // The first call makes them; it must come before threads start.
  const Blocks& blocks();
  const Labels& ranks();  // of the point at each position in the blocks; the points must be ranked

  std::size_t channels, count;
  std::size_t stride;  // doubles per row of places; with many channels a multiple of kDoublePad, padded with zeros
  Grid grid;
  Aligned<double> places;            // row-major
  std::vector<std::uint32_t> order;  // rank -> index of the point, once they are ranked
  std::uint64_t room;                // the bits of a key that hold the rank

  const double* place(std::size_t i) const { return places.data() + i * stride; }
  bool many_channels() const { return channels > kFewChannels; }

 private:
  static bool same(Rows a, Rows b) {
    return a.numbers == b.numbers && a.count == b.count && a.channels == b.channels;
  }

  static constexpr std::size_t kFewChannels = 8;  // for which boxes help

  Rows rows_, ties_;
  bool own_grid_ = true;  // whether the grid is that of the points alone
  std::unique_ptr<Blocks> blocks_;
  Labels ranks_;
};

}  // namespace bipointnet::search
