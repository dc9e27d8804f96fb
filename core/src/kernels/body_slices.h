// Part of body.h: the kernels that count agreements, in slices of a block or for one vector. engine/bitsliced.cpp
// derives the arithmetic.

// Writes the table of carries of `pairs` pairs: pairs x 8 slices. `parity` is the running bit before these inputs and
// is updated to the one after them.
inline void carries(const std::uint64_t* slices, int inputs, int pairs, Bits& parity, std::uint64_t* table) {
  for (int k = 0; k < 2 * pairs; k += 2, table += kEntries * kWords) {
    const Bits a = Bits::load(slices + k * kWords);
    const Bits b = k + 1 < inputs ? Bits::load(slices + (k + 1) * kWords) : Bits::zero();
    for (int entry = 0; entry < kEntries / 2; ++entry) {
      Bits sum = parity;
      const Bits carry = sum.full_add(entry & 2 ? a.complement() : a, entry & 1 ? b.complement() : b);
      carry.store(table + entry * kWords);
      carry.complement().store(table + (kEntries - 1 - entry) * kWords);  // majority(~x, ~y, ~z) = ~majority(x, y, z)
    }
    parity.full_add(a, b);
  }
}

// Adds the carries of 2^L pairs to counter[0 .. L - 1]; returns the carry out of them.
template <int L>
inline __attribute__((always_inline)) Bits tree(const char* table, const std::uint8_t* offsets, Bits* counter) {
  if constexpr (L == 0) {
    const unsigned long place = *offsets;  // unsigned: a signed index costs one more instruction
    return Bits::load(reinterpret_cast<const std::uint64_t*>(table + place * (kSliceBytes / 8)));
  } else {
    constexpr int half = 1 << (L - 1);
    const Bits x = tree<L - 1>(table, offsets, counter);
    const Bits y = tree<L - 1>(table + half * kEntries * kSliceBytes, offsets + half, counter);
    return counter[L - 1].full_add(x, y);
  }
}

inline Bits broadcast_bit(std::uint32_t bit) { return Bits::load(kConstantSlice[bit & 1]); }

inline bool bit_of(const std::uint64_t* words, int m) { return words[m >> 6] >> (m & 63) & 1; }

// The counter of one output. While one part of the inputs is counted, the low levels are in registers; the high levels,
// to which a part adds only one carry, stay in memory.
struct Counter {
  std::uint64_t* planes;  // levels slices
  int levels;
  Bits low[kPartLevels];

  inline __attribute__((always_inline)) void start(std::uint32_t start) {
    for (int level = 0; level < kPartLevels; ++level) low[level] = broadcast_bit(start >> (level + 1));
    for (int level = kPartLevels; level < levels; ++level)
      broadcast_bit(start >> (level + 1)).store(planes + level * kWords);
  }
  inline __attribute__((always_inline)) void load() {
    for (int level = 0; level < kPartLevels; ++level) low[level] = Bits::load(planes + level * kWords);
  }
  inline __attribute__((always_inline)) void store() const {
    for (int level = 0; level < kPartLevels; ++level) low[level].store(planes + level * kWords);
  }
  inline __attribute__((always_inline)) void ripple(Bits carry) {
    for (int level = kPartLevels; level < levels; ++level) {
      const Bits old = Bits::load(planes + level * kWords);
      (old ^ carry).store(planes + level * kWords);
      carry = old & carry;
    }
  }
  // Counts 2^L pairs if `pairs` has that bit, then continues with its lower bits.
  template <int L>
  inline __attribute__((always_inline)) void add(const char* table, const std::uint8_t* offsets, int pairs) {
    if (pairs & 1 << L) {
      Bits carry = tree<L>(table, offsets, low);
      for (int level = L; level < kPartLevels; ++level) {
        const Bits old = low[level];
        low[level] = old ^ carry;
        carry = old & carry;
      }
      ripple(carry);
      table += (kEntries * kSliceBytes) << L;
      offsets += 1 << L;
    }
    if constexpr (L > 0) add<L - 1>(table, offsets, pairs);
  }
};

// Counts the agreements of the `number` outputs in `which`, at most kBatch. begin(counter, m) sets the counter of output
// m before the first part; odd(m) is the lowest bit of its initial value, which must be the same in all lanes. For each
// output m, done(m, planes) gets start + agreements without its lowest bit, one slice per bit. `parity` becomes the
// lowest bit up to a complement.
template <class Begin, class Odd, class Done>
inline __attribute__((always_inline)) void count_from(const std::uint64_t* slices, const BitslicedLayer& layer,
                                                      const std::uint16_t* which, int number, std::uint64_t* scratch,
                                                      Bits& parity, const Begin& begin, const Odd& odd,
                                                      const Done& done) {
  const char* table = reinterpret_cast<const char*>(scratch);
  Counter counter;
  counter.levels = layer.levels < kPartLevels ? kPartLevels : layer.levels;
  parity = Bits::zero();
  for (int first = 0; first < layer.pairs; first += kPart) {
    const int pairs = layer.pairs - first < kPart ? layer.pairs - first : kPart;
    carries(slices + 2 * first * kWords, layer.inputs - 2 * first, pairs, parity, scratch);
    const bool last = first + pairs == layer.pairs;
    for (int i = 0; i < number; ++i) {
      const int m = which[i];
      const std::uint8_t* offsets =
          layer.offsets[odd(m)] + static_cast<long>(first) * layer.outputs + static_cast<long>(m) * pairs;
      counter.planes = scratch + (kPart * kEntries + i * counter.levels) * kWords;
      if (first == 0) {
        begin(counter, m);
      } else {
        counter.load();
      }
      if (pairs == kPart) {
        counter.ripple(tree<kPartLevels>(table, offsets, counter.low));
      } else {
        counter.add<kPartLevels - 1>(table, offsets, pairs);
      }
      counter.store();
      if (last) done(m, counter.planes);
    }
  }
}

// The same with the initial values of the layer.
template <class Done>
inline __attribute__((always_inline)) void count(const std::uint64_t* slices, const BitslicedLayer& layer,
                                                 const std::uint16_t* which, int number, std::uint64_t* scratch,
                                                 Bits& parity, const Done& done) {
  count_from(
      slices, layer, which, number, scratch, parity,
      [&](Counter& counter, int m) __attribute__((always_inline)) { counter.start(layer.start[m]); },
      [&](int m) __attribute__((always_inline)) { return layer.start[m] & 1; }, done);
}

// Calls work(which, number) with batches of the outputs whose bit is set in wanted(word).
template <class Wanted, class Work>
inline __attribute__((always_inline)) void each_batch(int outputs, const Wanted& wanted, const Work& work) {
  std::uint16_t which[kBatch];
  for (int first = 0; first < outputs; first += kBatch) {
    int number = 0;
    for (int m = first; m < outputs && m < first + kBatch; m += 64) {
      for (std::uint64_t left = wanted(m >> 6); left != 0; left &= left - 1) {
        which[number++] = static_cast<std::uint16_t>(m + __builtin_ctzll(left));
      }
    }
    if (number > 0) work(which, number);
  }
}

// The points at which an output with 2^L pairs of inputs fires. The whole counter is in registers; it has L + 1 bits,
// and the highest bit receives a single carry.
template <int L>
inline __attribute__((always_inline)) Bits fires_of(const char* table, const BitslicedLayer& layer, int m) {
  const std::uint32_t start = layer.start[m];
  Bits counter[L];
  for (int level = 0; level < L; ++level) counter[level] = broadcast_bit(start >> (level + 1));
  return broadcast_bit(start >> (L + 1)) ^
         tree<L>(table, layer.offsets[start & 1] + (static_cast<long>(m) << L), counter);
}

template <class Fires>
inline __attribute__((always_inline)) void layer_with(const BitslicedLayer& layer, std::uint64_t* out,
                                                      const Fires& fires) {
  for (int m = 0; m < layer.outputs; ++m) {
    (bit_of(layer.varies, m) ? fires(m) : broadcast_bit(bit_of(layer.always, m))).store(out + m * kWords);
  }
}

template <class Fires>
inline __attribute__((always_inline)) void pool_with(const BitslicedLayer& layer, Bits valid, std::uint64_t* fired,
                                                     const Fires& fires) {
  for (int first = 0; first < layer.outputs; first += 64) {
    std::uint64_t& word = fired[first / 64];
    word |= layer.always[first / 64];
    // Only the remaining outputs are visited, and no branch depends on a result: it would be mispredicted half the
    // time.
    for (std::uint64_t left = layer.varies[first / 64] & ~word; left != 0; left &= left - 1) {
      const int place = __builtin_ctzll(left);
      word |= static_cast<std::uint64_t>((fires(first + place) & valid).any()) << place;
    }
  }
}

inline const char* whole_table(const std::uint64_t* slices, const BitslicedLayer& layer, std::uint64_t* scratch) {
  Bits parity = Bits::zero();
  carries(slices, layer.inputs, layer.pairs, parity, scratch);
  return reinterpret_cast<const char*>(scratch);
}

// 64 and 128 inputs, the widths of the first point layers of PointNet, have their own code.
void bilinear(const std::uint64_t* slices, const BitslicedLayer& layer, std::uint64_t* scratch, std::uint64_t* out) {
  if (layer.pairs == 64) {
    const char* table = whole_table(slices, layer, scratch);
    return layer_with(layer, out, [&](int m) { return fires_of<6>(table, layer, m); });
  }
  if (layer.pairs == 32) {
    const char* table = whole_table(slices, layer, scratch);
    return layer_with(layer, out, [&](int m) { return fires_of<5>(table, layer, m); });
  }
  for (int m = 0; m < layer.outputs; ++m) broadcast_bit(bit_of(layer.always, m)).store(out + m * kWords);
  each_batch(
      layer.outputs, [&](int word) { return layer.varies[word]; },
      [&](const std::uint16_t* which, int number) {
        Bits parity;
        count(slices, layer, which, number, scratch, parity, [&](int m, const std::uint64_t* planes) {
          Bits::load(planes + (layer.levels - 1) * kWords).store(out + m * kWords);
        });
      });
}

void bilinear_pool(const std::uint64_t* slices, const BitslicedLayer& layer, const std::uint64_t* mask,
                   std::uint64_t* scratch, std::uint64_t* fired) {
  const Bits valid = Bits::load(mask);
  if (layer.pairs == 64) {
    const char* table = whole_table(slices, layer, scratch);
    return pool_with(layer, valid, fired, [&](int m) { return fires_of<6>(table, layer, m); });
  }
  if (layer.pairs == 32) {
    const char* table = whole_table(slices, layer, scratch);
    return pool_with(layer, valid, fired, [&](int m) { return fires_of<5>(table, layer, m); });
  }
  const auto left = [&](int word) {
    fired[word] |= layer.always[word];
    return layer.varies[word] & ~fired[word];
  };
  each_batch(layer.outputs, left, [&](const std::uint16_t* which, int number) {
    Bits parity;
    count(slices, layer, which, number, scratch, parity, [&](int m, const std::uint64_t* planes) {
      const bool fires = (Bits::load(planes + (layer.levels - 1) * kWords) & valid).any();
      fired[m >> 6] |= static_cast<std::uint64_t>(fires) << (m & 63);
    });
  });
}

// The counters start for the threshold of the layer. The threshold T of the pool is reached where start + agreements >=
// start + T. This is compared from the lowest bit to the highest: the highest bit that differs decides.
void bilinear_and_pool(const std::uint64_t* slices, const BitslicedLayer& layer, const BitslicedLayer& pool,
                       const std::uint64_t* mask, std::uint64_t* scratch, std::uint64_t* out, std::uint64_t* fired) {
  const Bits valid = Bits::load(mask);
  const auto wanted = [&](int word) {
    fired[word] |= pool.always[word];
    return layer.varies[word] | (pool.varies[word] & ~fired[word]);
  };
  for (int m = 0; m < layer.outputs; ++m) broadcast_bit(bit_of(layer.always, m)).store(out + m * kWords);
  each_batch(layer.outputs, wanted, [&](const std::uint16_t* which, int number) {
    Bits parity;
    count(slices, layer, which, number, scratch, parity, [&](int m, const std::uint64_t* planes) {
      if (bit_of(layer.varies, m)) Bits::load(planes + (layer.levels - 1) * kWords).store(out + m * kWords);
      if (!bit_of(pool.varies, m)) return;
      const std::uint32_t bound = layer.start[m] + (1u << pool.levels) - pool.start[m];
      const Bits lowest = parity ^ broadcast_bit(layer.start[m] ^ static_cast<std::uint32_t>(bit_of(layer.odd, m)));
      Bits reaches = lowest ^ (lowest.complement() & broadcast_bit(~bound));
      for (int level = 0; level < layer.levels; ++level) {
        const Bits plane = Bits::load(planes + level * kWords);
        reaches = (plane & reaches) ^ ((plane ^ reaches) & broadcast_bit(~bound >> (level + 1)));
      }
      fired[m >> 6] |= static_cast<std::uint64_t>((reaches & valid).any()) << (m & 63);
    });
  });
}

void agreements(const std::uint64_t* bits, const std::uint64_t* tiles, int inputs, int outputs, int* counts) {
  const int width = (inputs + 63) / 64;
  for (int m = 0; m < outputs; m += kTile, tiles += width * kTile) {
    int differ[kTile] = {};
    for (int word = 0; word < width; ++word) {
      for (int j = 0; j < kTile; ++j) differ[j] += popcount(bits[word] ^ tiles[word * kTile + j]);
    }
    for (int j = 0; j < kTile; ++j) counts[m + j] = inputs - differ[j];
  }
}
