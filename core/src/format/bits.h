// Packed signs: the bit layout of packed models.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bipointnet {

constexpr std::size_t kWordBits = 64;

constexpr std::size_t words_for(std::size_t bits) { return (bits + kWordBits - 1) / kWordBits; }

inline bool get_bit(const std::uint64_t* words, std::size_t index) {
  return words[index / kWordBits] >> index % kWordBits & 1;
}

// Packs the signs of a row-major matrix: bit c % 64 of word c / 64 of a row is 1 where value c is >= 0, else 0.
// So -0.0 gives 1 and NaN gives 0, as in training. Pad bits at the end of a row are 0.
// `words` holds rows * words_for(columns) words.
void pack_signs(const float* values, std::size_t rows, std::size_t columns, std::uint64_t* words);

}  // namespace bipointnet
