// Part of kernels.h: the functions of neighbor searches. Places on the grid of docs/format.md, "Neighbors", are
// integers in float64; every sum of squares of their differences is exact, so its order and fused
// multiply-adds do not matter.
#pragma once

#include <cstdint>

namespace bipointnet {

constexpr int kBlockPoints = 32;  // points per block
constexpr int kMostSorted = 128;  // keys that `sort_keys` takes at most
constexpr int kKeyPad = 16;       // keys that the functions below may write after the last one
constexpr int kDoublePad = 16;     // rows of places and of boxes are padded to a multiple of this, where padded

// Points in blocks of kBlockPoints neighbors, each with the box that its points span.
struct PointBlocks {
  int channels;
  int blocks;
  int stride;            // blocks, rounded up to a multiple of kDoublePad
  const double* places;  // blocks x channels x kBlockPoints; +infinity after the last point
  const double* low;     // channels x stride: the smallest place in each block; +infinity after the last block
  const double* high;    // channels x stride: the largest; -infinity after the last block
};

constexpr int kPanelPoints = 16;  // points per panel
constexpr int kCoarseRows = 12;   // centers of which coarse distances are computed at once, at most

// Points in many channels, rounded to a coarse grid: integers of 16 bits, two channels in one integer of 32 bits.
struct CoarsePoints {
  int pairs;                   // of channels
  const std::int32_t* panels;  // panels x pairs x kPanelPoints
  const std::int32_t* norms;   // sums of squares; after the last point larger than every coarse distance
};

// The point with the largest gap.
struct Farthest {
  double gap;
  std::int64_t position;  // in the order of the blocks; -1 if several have this gap and no labels decide between them
};

// The keys on both sides of a border.
struct Border {
  std::int64_t below, above;  // the largest key below it, and the smallest above
};

struct SearchKernels {
  // Appends the keys of all points with D <= bound, from block *block on: the bits of D, where the bits of `room` are
  // replaced by the label of the point. Stops before a block for which fewer than kBlockPoints of `capacity` are free.
  // Sets *block to the next block, or to the number of blocks. Returns the number of keys. Writes up to kKeyPad more.
  int (*collect)(const PointBlocks& points, const std::uint32_t* labels, std::uint64_t room, const double* center,
                 double bound, int* block, int capacity, std::int64_t* keys);

  // The `wanted` smallest of `count` distinct keys, ascending; count <= kMostSorted. Writes up to kKeyPad keys after
  // the last one.
  void (*sort_keys)(std::int64_t* keys, int count, int wanted, std::int64_t* sorted);

  // Moves the `wanted` >= 1 smallest of `count` > wanted distinct keys >= 0 to the front, in any order; what follows
  // them is undefined, up to kKeyPad keys after the last one. Returns the keys on both sides of the border.
  Border (*select_keys)(std::int64_t* keys, int count, int wanted);

  // gaps[i] = min(gaps[i], D of point i to the center), for all points. Returns the point with the largest gap;
  // among equal gaps the one with the smallest label, if there are labels. `most` has the largest gap of each block, -1
  // after the last block.
  Farthest (*update_gaps)(const PointBlocks& points, const std::uint32_t* labels, const double* center, double* gaps,
                          double* most);

  // The sum of round(exp(D factor) 2^30) over the points of the blocks from number `own` on; factor < 0. The term of each
  // point after block `own` is also added to the sum of that point, at its position in the blocks.
  double (*sum_density)(const PointBlocks& points, const double* center, double factor, int own, double* sums);

  // Squared coarse distances, rows x (panels x kPanelPoints), of the panels from the first one on to
  // rows <= kCoarseRows centers, each `pairs` integers. Reads whole rows of kCoarseRows centers.
  void (*coarse_squares)(const CoarsePoints& points, int panels, const std::int32_t* centers, const std::int32_t* norms,
                         int rows, std::int32_t* squares);

  // A number that at least `wanted` of `count` >= wanted numbers do not exceed, and few more. count is a multiple of
  // kPanelPoints.
  std::int32_t (*bound_of_smallest)(const std::int32_t* numbers, int count, int wanted);

  // The places of the numbers <= bound, ascending; count is a multiple of kPanelPoints. Returns how many there are.
  int (*places_within)(const std::int32_t* numbers, int count, std::int32_t bound, std::uint32_t* places);

  // The sum of the squares of a[i] - b[i]; count is a multiple of kDoublePad.
  double (*square)(const double* a, const double* b, int count);
};

}  // namespace bipointnet
