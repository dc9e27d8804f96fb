// Bilinear layers prepared for counting in slices.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace bipointnet {

// The arrays behind a Sliced.
class SlicedLayer {
 public:
  // bits: outputs x words_for(inputs), 1 = +1; threshold: outputs.
  SlicedLayer(const std::vector<std::uint64_t>& bits, const std::vector<int>& threshold, int inputs);

  Sliced view() const;

 private:
  int inputs_, outputs_, pairs_, levels_;
  std::vector<std::uint8_t> offsets_;
  std::vector<std::uint32_t> preload_;
  std::vector<std::uint64_t> varies_, always_;
};

}  // namespace bipointnet
