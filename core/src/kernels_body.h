// The kernels, written once over two small types that every kernels_*.cpp defines before it includes this file, inside
// its anonymous namespace:
//
//   Bits    a register of kLanes bits: load, store, zero, &, ^, complement, add (a full adder), any
//   Floats  a register of floats: kWidth, load, all, mul, plus, at_least (a mask, one bit a number)
//   ones    the number of bits that are set in a word
//
// No function of the standard library is used here: an inline function compiled for one instruction set could be the
// copy that the linker keeps for all.

constexpr int kWords = kLanes / 64;
constexpr int kSliceBytes = kLanes / 8;

// Slices of zeros and of ones, to be looked up by a bit.
alignas(64) constexpr std::uint64_t kAll[2][8] = {
    {0, 0, 0, 0, 0, 0, 0, 0},
    {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull},
};

// One bit a point of [sum over k of weight[k] x[k] >= bound], for 64 points, whose sums do not wait for each other.
inline __attribute__((always_inline)) std::uint64_t sign_word(const float* x, int inputs, const float* weight,
                                                              float bound) {
  constexpr int kGroups = 64 / Floats::kWidth;
  Floats sums[kGroups];
  for (int g = 0; g < kGroups; ++g) sums[g] = Floats::load(x + g * Floats::kWidth).mul(Floats::all(weight[0]));
  for (int k = 1; k < inputs; ++k) {
    const Floats w = Floats::all(weight[k]);
    for (int g = 0; g < kGroups; ++g) {
      sums[g] = sums[g].plus(Floats::load(x + k * kLanes + g * Floats::kWidth).mul(w));
    }
  }
  std::uint64_t word = 0;
  for (int g = 0; g < kGroups; ++g) {
    word |= static_cast<std::uint64_t>(sums[g].at_least(Floats::all(bound))) << (g * Floats::kWidth);
  }
  return word;
}

void signs(const float* x, int inputs, const float* weight, const float* bound, int outputs, std::uint64_t* slices) {
  for (int m = 0; m < outputs; ++m) {
    for (int word = 0; word < kWords; ++word) {
      slices[m * kWords + word] = inputs == 3 ? sign_word(x + 64 * word, 3, weight + 3 * m, bound[m])
                                              : sign_word(x + 64 * word, inputs, weight + inputs * m, bound[m]);
    }
  }
}

void dense(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows) {
  constexpr int kGroup = 16;
  for (int m = 0; m < outputs; ++m) {
    const float* w = weight + m * inputs;
    for (int i = 0; i < kLanes; i += kGroup) {
      float sum[kGroup];
      for (int j = 0; j < kGroup; ++j) sum[j] = w[0] * x[i + j];
      for (int k = 1; k < inputs; ++k) {
        for (int j = 0; j < kGroup; ++j) sum[j] += w[k] * x[k * kLanes + i + j];
      }
      for (int j = 0; j < kGroup; ++j) rows[m * kLanes + i + j] = activate(sum[j] + bias[m], act);
    }
  }
}

void carries(const std::uint64_t* slices, int inputs, std::uint64_t* table) {
  Bits parity = Bits::zero();
  for (int k = 0; k < inputs; k += 2, table += kEntries * kWords) {
    const Bits a = Bits::load(slices + k * kWords);
    const Bits b = k + 1 < inputs ? Bits::load(slices + (k + 1) * kWords) : Bits::zero();
    for (int entry = 0; entry < kEntries; ++entry) {
      Bits sum = entry & 4 ? parity.complement() : parity;
      sum.add(entry & 2 ? a.complement() : a, entry & 1 ? b.complement() : b).store(table + entry * kWords);
    }
    parity.add(a, b);
  }
}

// Adds the carries of 2^L pairs to counter[0 .. L - 1]; returns the carry out of them.
template <int L>
inline __attribute__((always_inline)) Bits tree(const char* table, const std::uint8_t* offsets, Bits* counter) {
  if constexpr (L == 0) {
    return Bits::load(reinterpret_cast<const std::uint64_t*>(table + *offsets * (kSliceBytes / 8)));
  } else {
    constexpr int half = 1 << (L - 1);
    const Bits x = tree<L - 1>(table, offsets, counter);
    const Bits y = tree<L - 1>(table + half * kEntries * kSliceBytes, offsets + half, counter);
    return counter[L - 1].add(x, y);
  }
}

inline void ripple(Bits* counter, int from, int levels, Bits carry) {
  for (int level = from; level < levels; ++level) {
    const Bits old = counter[level];
    counter[level] = old ^ carry;
    carry = old & carry;
  }
}

inline Bits all(std::uint32_t bit) { return Bits::load(kAll[bit & 1]); }

// The points of a block at which an output fires, the highest bit of its counter, for any number of pairs.
inline Bits fires(const char* table, const Sliced& layer, int m) {
  constexpr int kLow = 4, kStep = 1 << kLow, kPairBytes = kEntries * kSliceBytes;
  const std::uint32_t start = layer.start[m];
  const std::uint8_t* offsets = layer.offsets[start & 1] + static_cast<long>(m) * layer.pairs;
  Bits counter[kMostLevels];
  for (int level = 0; level < layer.levels; ++level) counter[level] = all(start >> (level + 1));
  int pair = 0;
  for (; pair + kStep <= layer.pairs; pair += kStep) {
    ripple(counter, kLow, layer.levels,
           tree<kLow>(table + static_cast<long>(pair) * kPairBytes, offsets + pair, counter));
  }
  for (; pair < layer.pairs; ++pair) {
    ripple(counter, 0, layer.levels, tree<0>(table + static_cast<long>(pair) * kPairBytes, offsets + pair, counter));
  }
  return counter[layer.levels - 1];
}

// The same for 2^L pairs, with the whole counter in registers. It has L + 1 bits, the highest of which takes one carry.
template <int L>
inline __attribute__((always_inline)) Bits fires_of(const char* table, const Sliced& layer, int m) {
  const std::uint32_t start = layer.start[m];
  Bits counter[L];
  for (int level = 0; level < L; ++level) counter[level] = all(start >> (level + 1));
  return all(start >> (L + 1)) ^ tree<L>(table, layer.offsets[start & 1] + (static_cast<long>(m) << L), counter);
}

template <class Fires>
inline __attribute__((always_inline)) void layer_with(const Sliced& layer, std::uint64_t* slices, const Fires& fires) {
  for (int m = 0; m < layer.outputs; ++m) {
    const bool varies = layer.varies[m >> 6] >> (m & 63) & 1;
    (varies ? fires(m) : all(static_cast<std::uint32_t>(layer.always[m >> 6] >> (m & 63)))).store(slices + m * kWords);
  }
}

template <class Fires>
inline __attribute__((always_inline)) void pool_with(const Sliced& layer, Bits valid, std::uint64_t* fired,
                                                     const Fires& fires) {
  for (int first = 0; first < layer.outputs; first += 64) {
    std::uint64_t& word = fired[first / 64];
    word |= layer.always[first / 64];
    // Walking the outputs that are left, and no branch on the answer: both would be mispredicted half of the time.
    for (std::uint64_t left = layer.varies[first / 64] & ~word; left != 0; left &= left - 1) {
      const int place = __builtin_ctzll(left);
      word |= static_cast<std::uint64_t>((fires(first + place) & valid).any()) << place;
    }
  }
}

// 64 and 128 inputs, the sizes of PointNet's point layers, have code of their own.
void layer(const std::uint64_t* slices_table, const Sliced& layer, std::uint64_t* slices) {
  const char* table = reinterpret_cast<const char*>(slices_table);
  if (layer.pairs == 64) return layer_with(layer, slices, [&](int m) { return fires_of<6>(table, layer, m); });
  if (layer.pairs == 32) return layer_with(layer, slices, [&](int m) { return fires_of<5>(table, layer, m); });
  layer_with(layer, slices, [&](int m) { return fires(table, layer, m); });
}

void pool(const std::uint64_t* slices_table, const Sliced& layer, const std::uint64_t* mask, std::uint64_t* fired) {
  const char* table = reinterpret_cast<const char*>(slices_table);
  const Bits valid = Bits::load(mask);
  if (layer.pairs == 64) return pool_with(layer, valid, fired, [&](int m) { return fires_of<6>(table, layer, m); });
  if (layer.pairs == 32) return pool_with(layer, valid, fired, [&](int m) { return fires_of<5>(table, layer, m); });
  pool_with(layer, valid, fired, [&](int m) { return fires(table, layer, m); });
}

void compare(const float* x, int count, float at, std::uint64_t* bits) {
  const float one = 1.0f;
  int k = 0;
  for (; k + 64 <= count; k += 64) *bits++ = sign_word(x + k, 1, &one, at);
  if (k == count) return;
  std::uint64_t word = 0;
  for (int j = 0; k + j < count; ++j) word |= static_cast<std::uint64_t>(x[k + j] >= at) << j;
  *bits = word;
}

void raise(const float* x, int count, float* __restrict largest) {
  for (int k = 0; k < count; ++k) largest[k] = largest[k] < x[k] ? x[k] : largest[k];
}

void agreements(const std::uint64_t* bits, const std::uint64_t* tiles, int inputs, int outputs, int* counts) {
  const int width = (inputs + 63) / 64;
  for (int m = 0; m < outputs; m += kTile, tiles += width * kTile) {
    int differ[kTile] = {};
    for (int word = 0; word < width; ++word) {
      for (int j = 0; j < kTile; ++j) differ[j] += ones(bits[word] ^ tiles[word * kTile + j]);
    }
    for (int j = 0; j < kTile; ++j) counts[m + j] = inputs - differ[j];
  }
}

void line(const int* counts, int inputs, const float* a, const float* b, float scale, int outputs, int act,
          float* __restrict y) {
  for (int m = 0; m < outputs; ++m) {
    y[m] = activate(a[m] * (scale * static_cast<float>(2 * counts[m] - inputs)) + b[m], act);
  }
}

void vector(const float* x, int inputs, const float* columns, const float* bias, int outputs, int act, float* y) {
  for (int m = 0; m < outputs; ++m) y[m] = columns[m] * x[0];
  for (int k = 1; k < inputs; ++k) {
    for (int m = 0; m < outputs; ++m) y[m] += columns[static_cast<long>(k) * outputs + m] * x[k];
  }
  for (int m = 0; m < outputs; ++m) y[m] = activate(y[m] + bias[m], act);
}
