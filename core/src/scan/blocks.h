// Rooms and scans as blocks: square columns that a network labels one by one. bipointnet.data.blocks is the same in
// NumPy, bit for bit; it explains the channels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/block_layout.h"

namespace bipointnet::scan {

// One block: as many points as in training.
struct Block {
  std::vector<std::uint32_t> index;  // the points of the scan; some are repeated if the column has fewer
  std::size_t votes;                 // the first so many vote; the others only fill the block
  std::array<float, 2> lowest;       // the minimum of x and y in the column
  float ground;                      // the height of the ground around it, if the layout has the channel `height`
};

// A scan whose points are sorted by cells; a block has two cells along each side.
class Columns {
 public:
  // xyz: `count` finite points in meters, z up. features: those of the layout, point by point; both must outlive the
  // Columns. Throws InputError for a scan that is too wide.
  Columns(const BlockLayout& layout, const float* xyz, const float* features, std::size_t count);

  // Writes the channels of the points of a block.
  void fill(const Block& block, float* channels) const;

 private:
  friend class Cover;
  void find_ground();

  const BlockLayout& layout_;
  std::vector<float> xyz_;  // relative to the lowest corner of the scan
  const float* features_;
  std::size_t feature_count_;
  std::array<float, 3> size_{};  // the maximum of xyz_
  std::size_t across_ = 1, along_ = 1;  // the number of cells along x and y; cell (x, y) has the number x * along_ + y
  std::vector<std::uint32_t> order_;    // the points sorted by cell
  std::vector<std::uint32_t> starts_;   // where each cell starts in order_, and its size at the end
  std::vector<float> ground_;           // around the block that starts at each cell; empty without the channel `height`
};

// The overlapping blocks of a scan, one every half side. A column with more than `points` points becomes several
// blocks, each with points from all over the column.
class Cover {
 public:
  Cover(const Columns& columns, std::size_t points);

  // False after the last block.
  bool next(Block& block);

 private:
  void take_column(std::size_t corner);

  const Columns& columns_;
  std::size_t points_;
  std::vector<bool> corners_;  // whether a block starts at a cell
  std::size_t corner_ = 0;     // the next one to examine
  std::vector<std::uint32_t> inside_;  // the points of the column, shuffled
  std::array<float, 2> lowest_{};
  float ground_ = 0;
  std::size_t done_ = 0;  // points of the column that have been in a block
};

}  // namespace bipointnet::scan
