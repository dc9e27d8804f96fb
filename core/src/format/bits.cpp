#include "format/bits.h"

#include <algorithm>

namespace bipointnet {

void pack_signs(const float* values, std::size_t rows, std::size_t columns, std::uint64_t* words) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t start = 0; start < columns; start += kWordBits) {
      const std::size_t count = std::min(kWordBits, columns - start);
      std::uint64_t word = 0;
      for (std::size_t bit = 0; bit < count; ++bit) {
        word |= static_cast<std::uint64_t>(values[start + bit] >= 0.0f) << bit;
      }
      *words++ = word;
    }
    values += columns;
  }
}

}  // namespace bipointnet
