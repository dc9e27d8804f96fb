// How agreements are counted in slices.
//
// Let a_k be the slice of input k: one bit per point. Output m agrees with input k where x_k = a_k for a weight of +1,
// or x_k = ~a_k for a weight of -1, is 1. That is x_k = a_k ^ c_k, where the complement c_k is 1 for a weight of -1.
// The goal is, at every point, whether x_0 + ... + x_{K-1} >= T.
//
// The threshold. Take m with 2^m >= K, and T from 1 to K (other thresholds give constant outputs). The number
//
//     x_0 + ... + x_{K-1} + Q,    Q = 2^m - T >= 0
//
// is below 2^(m+1), and its bit m is set exactly where the sum reaches T. So a counter that starts at Q needs no
// comparison.
//
// The lowest bit. Add the inputs in pairs to a running bit s, which starts as the lowest bit q of Q:
//
//     carry_j = majority(s, x_2j, x_2j+1)        s = s ^ x_2j ^ x_2j+1
//
// The final s has weight 1 and does not reach bit m >= 1. So the result is the highest bit of an m-bit counter that
// starts at Q >> 1 and counts the carries: half as many as there are inputs.
//
// The table. Up to complements all outputs have the same running bit: s = S_j ^ p with S_j = a_0 ^ ... ^ a_2j-1 and p
// the parity of q and the complements so far. So carry_j is one of eight slices
//
//     majority(S_j ^ p, a_2j ^ c_2j, a_2j+1 ^ c_2j+1)
//
// which the kernels write once per block, at index 4 p + 2 c_2j + c_2j+1 of the eight entries of pair j. Each output
// is then K / 2 look-ups. Their indices are computed here, when a model is loaded, for q = 0 and for q = 1, because
// the threshold of a pool changes with the number of points. They are stored times 8, a scale that addressing modes
// have. If K is odd, the second input of the last pair is a slice of zeros that is not complemented: a disagreement.
//
// The count itself. Where the agreements are needed as a number, or are compared with a second threshold, counting
// starts at Q (or 0) in the same way. The bit that was left out is the last running bit S ^ p, with S over all inputs
// and p the parity of q and all complements. So the bits of the counter and this bit are Q + x_0 + ... + x_{K-1}.
#include "engine/bitsliced.h"

#include <algorithm>

#include "format/bits.h"

namespace bipointnet {

namespace {

// Bytes of 0 or 1, a multiple of 64, as bits. Eight bytes times the constant have their sum of bits in the highest byte, the first byte in
// its lowest bit: no two products meet.
std::vector<std::uint64_t> packed(const std::vector<std::uint8_t>& flags) {
  std::vector<std::uint64_t> words(flags.size() / 64);
  for (std::size_t i = 0; i < flags.size(); i += 8) {
    const std::uint8_t* f = &flags[i];
    const auto byte = [f](int j) { return std::uint64_t{f[j]} << 8 * j; };
    const std::uint64_t eight = byte(0) | byte(1) | byte(2) | byte(3) | byte(4) | byte(5) | byte(6) | byte(7);
    words[i / 64] |= (eight * 0x0102040810204080 >> 56) << i % 64;
  }
  return words;
}

}  // namespace

BitslicedWeights::BitslicedWeights(const std::vector<std::uint64_t>& bits, int inputs, int outputs)
    : inputs_(inputs), outputs_(outputs), pairs_((inputs + 1) / 2), levels_(1) {
  while ((1 << levels_) < inputs) ++levels_;
  const std::size_t pairs = static_cast<std::size_t>(pairs_), width = words_for(static_cast<std::size_t>(inputs));
  const std::size_t part = static_cast<std::size_t>(kPart);
  odd_.resize(words_for(static_cast<std::size_t>(outputs)));
  for (unsigned odd = 0; odd < 2; ++odd) {
    std::vector<std::uint8_t>& offsets = offsets_[odd];
    offsets.resize(static_cast<std::size_t>(outputs) * pairs);
    for (std::size_t m = 0; m < static_cast<std::size_t>(outputs); ++m) {
      const auto complement = [&](std::size_t k) {
        return k < static_cast<std::size_t>(inputs) ? unsigned(~bits[m * width + k / 64] >> k % 64 & 1) : 0u;
      };
      unsigned parity = odd;
      for (std::size_t j = 0; j < pairs; ++j) {
        const unsigned a = complement(2 * j), b = complement(2 * j + 1);
        const std::size_t first = j / part * part, width_of_part = std::min(part, pairs - first);
        offsets[first * static_cast<std::size_t>(outputs) + m * width_of_part + j - first] =
            static_cast<std::uint8_t>(8 * (4 * parity + 2 * a + b));
        parity ^= a ^ b;
      }
      if (odd == 0 && parity == 1) odd_[m / 64] |= std::uint64_t{1} << m % 64;
    }
  }
}

Thresholds BitslicedWeights::thresholds(const std::vector<int>& threshold) const {
  const std::size_t outputs = threshold.size();
  Thresholds thresholds{std::vector<std::uint32_t>(outputs), {}, {}};
  // Loops without branches, which compilers vectorize: which outputs are constant cannot be predicted.
  std::vector<std::uint8_t> always(64 * words_for(outputs)), varies(always.size());
  const int inputs = inputs_, power = 1 << levels_;
  const int* from = threshold.data();
  std::uint32_t* start = thresholds.start.data();
  for (std::size_t m = 0; m < outputs; ++m) {
    const int constant = (from[m] <= 0) | (from[m] > inputs);
    start[m] = static_cast<std::uint32_t>((power - from[m]) & (constant - 1));
  }
  for (std::size_t m = 0; m < outputs; ++m) always[m] = static_cast<std::uint8_t>(from[m] <= 0);
  for (std::size_t m = 0; m < outputs; ++m) varies[m] = static_cast<std::uint8_t>((from[m] > 0) & (from[m] <= inputs));
  thresholds.varies = packed(varies);
  thresholds.always = packed(always);
  return thresholds;
}

Thresholds BitslicedWeights::counting() const {
  const std::size_t outputs = static_cast<std::size_t>(outputs_);
  Thresholds thresholds{std::vector<std::uint32_t>(outputs), std::vector<std::uint64_t>(words_for(outputs)), {}};
  thresholds.always.resize(words_for(outputs));
  for (std::size_t m = 0; m < outputs; ++m) thresholds.varies[m / 64] |= std::uint64_t{1} << m % 64;
  return thresholds;
}

BitslicedLayer BitslicedWeights::layer(const Thresholds& thresholds) const {
  return {inputs_,
          outputs_,
          pairs_,
          levels_,
          {offsets_[0].data(), offsets_[1].data()},
          odd_.data(),
          thresholds.start.data(),
          thresholds.varies.data(),
          thresholds.always.data()};
}

std::vector<std::uint64_t> tiled(const std::vector<std::uint64_t>& bits, int inputs, int outputs) {
  const std::size_t rows = static_cast<std::size_t>(outputs), width = words_for(static_cast<std::size_t>(inputs));
  std::vector<std::uint64_t> tiles((rows + kTile - 1) / kTile * kTile * width);
  for (std::size_t m = 0; m < rows; ++m) {
    for (std::size_t word = 0; word < width; ++word) {
      tiles[(m / kTile * width + word) * kTile + m % kTile] = bits[m * width + word];
    }
  }
  return tiles;
}

}  // namespace bipointnet
