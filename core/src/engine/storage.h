// The values of one run, in the forms in which operations read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "format/network.h"

namespace bipointnet {

// A value of the cloud has one element. Of the other values, only those that a later step reads are stored.
struct Storage {
  Aligned<float> elements;              // floats: elements x channels
  std::vector<std::uint64_t> words;     // bits: elements x words_for(channels)
  Aligned<float> rows;                  // floats in blocks: blocks x channels x lanes
  Aligned<std::uint64_t> slices;        // bits in blocks: blocks x channels x lanes / 64
  std::vector<std::uint32_t> indices;   // indices: one per element
  std::vector<std::uint32_t> counts;    // indices over groups: true neighbors per group
};

// A value for inspection and tests.
struct Traced {
  Kind kind{};
  std::size_t rows = 0, columns = 0;   // elements of its domain, and channels
  std::vector<float> numbers;          // floats, or bits as 0 and 1
  std::vector<std::uint32_t> indices;  // indices
  std::vector<std::uint32_t> counts;   // indices over groups: true neighbors per group
};

}  // namespace bipointnet
