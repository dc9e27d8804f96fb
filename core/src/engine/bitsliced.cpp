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
  Thresholds thresholds;
  thresholds.start.resize(threshold.size());
  thresholds.varies.resize(words_for(threshold.size()));
  thresholds.always.resize(words_for(threshold.size()));
  for (std::size_t m = 0; m < threshold.size(); ++m) {
    const std::uint64_t bit = std::uint64_t{1} << m % 64;
    if (threshold[m] <= 0) {
      thresholds.always[m / 64] |= bit;
    } else if (threshold[m] <= inputs_) {
      thresholds.varies[m / 64] |= bit;
      thresholds.start[m] = (1u << levels_) - static_cast<unsigned>(threshold[m]);
    }
  }
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
