// The one shuffle of predictions: it needs no state, so C++, NumPy and any other language repeat it in a few lines.
//
// Index i has the rank mix((i + 1) * 0x9e3779b97f4a7c15), the output i of the generator SplitMix64 (Steele et al. 2014)
// with seed 0; an index with a lower rank comes first. Both steps are bijections of 64-bit numbers, so no two indices
// have the same rank. bipointnet.data.shuffle is the same in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet::scan {

inline std::uint64_t rank_of(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// The rank as a number from 0 to 1, exclusive, with 53 bits.
inline double uniform(std::uint64_t index) { return static_cast<double>(rank_of(index) >> 11) * 0x1p-53; }

// Sorts indices by rank.
void shuffle(std::vector<std::uint32_t>& indices);

// The indices 0 to count - 1, sorted by rank. count is below 2^32.
std::vector<std::uint32_t> shuffled(std::size_t count);

}  // namespace bipointnet::scan
