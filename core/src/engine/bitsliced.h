// Bilinear layers prepared for the kernels: on points for counting in slices, on one vector in tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace bipointnet {

// What follows from the thresholds of a layer: where counting starts.
struct Starts {
  std::vector<int> threshold;
  std::vector<std::uint32_t> start;
  std::vector<std::uint64_t> varies, always;
};

// What follows from its weights: which carries are looked up.
class SlicedLayer {
 public:
  // bits: outputs x words_for(inputs), 1 = +1.
  SlicedLayer(const std::vector<std::uint64_t>& bits, int inputs, int outputs);

  // threshold: outputs.
  Starts starts(const std::vector<int>& threshold) const;

  // For counting the agreements themselves, from 0.
  Starts counts() const;

  // The layer with its thresholds; both must outlive it.
  Sliced with(const Starts& starts) const;

 private:
  int inputs_, outputs_, pairs_, levels_;
  std::vector<std::uint8_t> offsets_[2];
  std::vector<std::uint64_t> odd_;
};

// Rows of bits, outputs x words_for(inputs), in tiles of kTile: word by word, the words of its rows beside each other. The
// last tile is filled with rows of zeros.
std::vector<std::uint64_t> tiled(const std::vector<std::uint64_t>& bits, int inputs, int outputs);

}  // namespace bipointnet
