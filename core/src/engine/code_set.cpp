#include "engine/code_set.h"

#include <cstddef>

namespace bipointnet {

void transpose(std::uint64_t (&words)[64]) {
  // Swaps the off-diagonal quarters of squares of halving size.
  std::uint64_t mask = 0x00000000ffffffff;
  for (unsigned half = 32; half != 0; half >>= 1, mask ^= mask << half) {
    for (unsigned i = 0; i < 64; i = ((i | half) + 1) & ~half) {
      const std::uint64_t swapped = (words[i] >> half ^ words[i | half]) & mask;
      words[i] ^= swapped << half;
      words[i | half] ^= swapped;
    }
  }
}

void CodeSet::reset(std::size_t max_codes) {
  unsigned bits = 4;
  while ((std::size_t{1} << bits) < 2 * max_codes) ++bits;
  shift_ = 64 - bits;
  codes_.clear();
  codes_.reserve(max_codes);
  slots_.assign(std::size_t{1} << bits, 0);
}

std::uint32_t CodeSet::insert(std::uint64_t code) {
  const std::size_t mask = slots_.size() - 1;
  // Multiplying by 2^64 / golden ratio mixes every bit into the highest ones.
  for (std::size_t slot = code * 0x9e3779b97f4a7c15 >> shift_;; slot = (slot + 1) & mask) {
    const std::uint32_t known = slots_[slot];
    if (known == 0) {
      codes_.push_back(code);
      return (slots_[slot] = static_cast<std::uint32_t>(codes_.size())) - 1;
    }
    if (codes_[known - 1] == code) return known - 1;
  }
}

}  // namespace bipointnet
