// Bilinear layers prepared for the kernels: bitsliced for blocks of points, tiled for one vector.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace bipointnet {

// What the thresholds of a layer determine: the initial values of its counters.
struct Thresholds {
  std::vector<std::uint32_t> start;           // one per output
  std::vector<std::uint64_t> varies, always;  // one bit per output, as in BitslicedLayer
};

// What the weights of a layer determine: which carries are looked up.
class BitslicedWeights {
 public:
  // bits: outputs x words_for(inputs), 1 = +1. one_copy: for kernels that need one copy, or for fix().
  BitslicedWeights(const std::uint64_t* bits, int inputs, int outputs, bool one_copy);

  // For comparing the agreements with `threshold`, one value per output.
  Thresholds thresholds(const std::vector<int>& threshold) const;

  // For the agreements themselves: all counters start at 0.
  Thresholds counting() const;

  // For kernels that need two copies of weights that have one: from now on layer() is for these thresholds only.
  void fix(const Thresholds& thresholds);

  int levels() const { return levels_; }  // bits of a counter

  // The layer as the kernels read it. It points into this object and into `thresholds`.
  BitslicedLayer layer(const Thresholds& thresholds) const;

 private:
  int inputs_, outputs_, pairs_, levels_;
  std::vector<std::uint8_t> offsets_[2];  // for even and odd initial values; the second is empty with one copy
  std::vector<std::uint64_t> odd_;
};

// Arranges rows of bits, outputs x words_for(inputs), in tiles of kTile rows: word by word, the words of the rows of a
// tile next to each other. The last tile is padded with rows of zeros.
std::vector<std::uint64_t> tiled(const std::uint64_t* bits, int inputs, int outputs);

}  // namespace bipointnet
