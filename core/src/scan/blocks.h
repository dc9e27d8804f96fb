// Rooms and scans as blocks: columns of 1 m x 1 m that a network labels one by one. bipointnet.data.blocks is the same
// in NumPy, bit for bit; it explains the channels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet::scan {

// One block: as many points as in training.
struct Block {
  std::vector<std::uint32_t> index;  // the points of the scan; some are repeated if the column has fewer
  std::size_t votes;                 // the first so many vote; the others only fill the block
  std::array<float, 2> lowest;       // the minimum of x and y in the column
};

// A scan whose points are sorted by cells of half a meter.
class Columns {
 public:
  // xyz: `count` finite points in meters, z up. rgb: their colors from 0 to 1, or NULL; they must outlive the Columns.
  // Throws InputError for a scan that is too wide.
  Columns(const float* xyz, const float* rgb, std::size_t count);

  std::size_t channels() const { return rgb_ == nullptr ? 6 : 9; }

  // Writes the channels of the points of a block.
  void fill(const Block& block, float* channels) const;

 private:
  friend class Cover;
  std::vector<float> xyz_;  // relative to the lowest corner of the scan
  const float* rgb_;
  std::array<float, 3> size_{};  // the maximum of xyz_
  std::size_t across_ = 1, along_ = 1;  // the number of cells along x and y; cell (x, y) has the number x * along_ + y
  std::vector<std::uint32_t> order_;    // the points sorted by cell
  std::vector<std::uint32_t> starts_;   // where each cell starts in order_, and its size at the end
};

// The overlapping blocks of a scan, one every half meter. A column with more than `points` points becomes several
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
  std::size_t done_ = 0;  // points of the column that have been in a block
};

}  // namespace bipointnet::scan
