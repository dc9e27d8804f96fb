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
#include "format/network.h"

namespace bipointnet {

namespace {

// Bytes of 0 or 1, a multiple of 64 of them, as bits. The product of eight bytes and the constant has byte j at bit j of
// its highest byte: no two products overlap.
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

// Bit k: the parity of bits 0 to k.
std::uint64_t parities(std::uint64_t bits) {
  for (int step = 1; step < 64; step *= 2) bits ^= bits << step;
  return bits;
}

// An entry for four pairs of bits, of which the lower one is a and the upper one b: byte j is 8 (2 a + b) of pair j.
struct Pairs {
  std::uint32_t entries[256];
  constexpr Pairs() : entries{} {
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t a = bits >> 2 * j & 1, b = bits >> (2 * j + 1) & 1;
        entries[bits] |= 8 * (2 * a + b) << 8 * j;
      }
    }
  }
};
constexpr Pairs kPairs{};
constexpr std::uint8_t kParity = 8 * 4;  // p of an entry

}  // namespace

BitslicedWeights::BitslicedWeights(const std::uint64_t* bits, int inputs, int outputs, bool one_copy)
    : inputs_(inputs), outputs_(outputs), pairs_((inputs + 1) / 2), levels_(1) {
  while ((1 << levels_) < inputs) ++levels_;
  const std::size_t pairs = size(pairs_), rows = size(outputs), width = words_for(size(inputs)), part = size(kPart);
  odd_.resize(words_for(rows));
  offsets_[0].resize(rows * pairs);
  for (std::size_t m = 0; m < rows; ++m) {
    std::uint64_t parity = 0;  // of the complements so far
    for (std::size_t word = 0; word < width; ++word) {
      const std::size_t left = size(inputs) - word * 64;
      const std::uint64_t pads = left < 64 ? ~std::uint64_t{0} << left : 0;
      const std::uint64_t complements = ~(bits[m * width + word] | pads);
      const std::uint64_t before = parities(complements) << 1 ^ (0 - parity);
      for (std::size_t j = word * 32; j < std::min(pairs, word * 32 + 32); j += 4) {
        const std::size_t first = j / part * part, width_of_part = std::min(part, pairs - first);
        const auto byte = [&](std::uint64_t of) { return of >> (2 * j % 64) & 0xff; };
        const std::uint32_t four = kPairs.entries[byte(complements)] | kPairs.entries[byte(before) & 0x55] << 1;
        std::uint8_t* to = &offsets_[0][first * rows + m * width_of_part + j - first];
        const std::size_t count = std::min<std::size_t>(4, pairs - j);
        for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(four >> 8 * i);
      }
      parity ^= parities(complements) >> 63;
    }
    odd_[m / 64] |= parity << m % 64;
  }
  if (one_copy) return;
  offsets_[1] = offsets_[0];
  for (std::uint8_t& offset : offsets_[1]) offset ^= kParity;
}

void BitslicedWeights::fix(const Thresholds& thresholds) {
  const std::size_t pairs = size(pairs_), rows = size(outputs_), part = size(kPart);
  for (std::size_t first = 0; first < pairs; first += part) {
    const std::size_t width = std::min(part, pairs - first);
    for (std::size_t m = 0; m < rows; ++m) {
      std::uint8_t* row = &offsets_[0][first * rows + m * width];
      for (std::size_t j = 0; (thresholds.start[m] & 1) != 0 && j < width; ++j) row[j] ^= kParity;
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
          {offsets_[0].data(), offsets_[offsets_[1].empty() ? 0 : 1].data()},
          odd_.data(),
          thresholds.start.data(),
          thresholds.varies.data(),
          thresholds.always.data()};
}

std::vector<std::uint64_t> tiled(const std::uint64_t* bits, int inputs, int outputs) {
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
