// Part of body.h: the kernels that count agreements, in slices of a block or for one vector. engine/bitsliced.cpp
// derives the arithmetic.

// An odd initial value complements the parity p, the highest bit of the index of an entry (engine/bitsliced.cpp). Weights
// have a copy of their indices for it, or the table repeats its first half behind the second one: then the same indices
// find the entries with the other p if they are counted from the second half on.
constexpr int kTableEntries = Bits::kOneCopy ? kMostEntries : kEntries;
inline __attribute__((always_inline)) long shift_of(std::uint32_t start) {
  return Bits::kOneCopy ? static_cast<long>(start & 1) * (kEntries / 2 * kSliceBytes) : 0;
}
inline __attribute__((always_inline)) const std::uint8_t* offsets_of(const BitslicedLayer& layer, std::uint32_t start) {
  return layer.offsets[Bits::kOneCopy ? 0 : start & 1];
}

// Writes the table of carries of `pairs` pairs: pairs x kTableEntries slices, or the first of kParts parts of each. `parity` is the
// running bit before these inputs and is updated to the one after them. (Register is Bits; as a parameter, it need not
// have the functions for parts where there are none.)
template <class Register, int kParts = 1>
inline void carries(const std::uint64_t* slices, int inputs, int pairs, Register& parity, std::uint64_t* table) {
  constexpr int kStep = kWords / kParts;
  const auto put = [&](int entry, Register carry) {
    if constexpr (kParts == 1) {
      carry.store(table + entry * kStep);
    } else {
      carry.template store_part<kParts>(table + entry * kStep);
    }
  };
  for (int k = 0; k < 2 * pairs; k += 2, table += kTableEntries * kStep) {
    const Register a = Register::load(slices + k * kWords);
    const Register b = k + 1 < inputs ? Register::load(slices + (k + 1) * kWords) : Register::zero();
    for (int entry = 0; entry < kEntries / 2; ++entry) {
      Register sum = parity;
      const Register carry = sum.full_add(entry & 2 ? a.complement() : a, entry & 1 ? b.complement() : b);
      put(entry, carry);
      if (Bits::kOneCopy) put(kEntries + entry, carry);
      put(kEntries - 1 - entry, carry.complement());  // majority(~x, ~y, ~z) = ~majority(x, y, z)
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
    const Bits y = tree<L - 1>(table + half * kTableEntries * kSliceBytes, offsets + half, counter);
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
      table += (kTableEntries * kSliceBytes) << L;
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
  const int entries = (layer.pairs < kPart ? layer.pairs : kPart) * kTableEntries;
  const int kept = layer.pairs > kPart ? counter.levels : 0;  // only between two parts
  parity = Bits::zero();
  for (int first = 0; first < layer.pairs; first += kPart) {
    const int pairs = layer.pairs - first < kPart ? layer.pairs - first : kPart;
    carries(slices + 2 * first * kWords, layer.inputs - 2 * first, pairs, parity, scratch);
    const bool last = first + pairs == layer.pairs;
    for (int i = 0; i < number; ++i) {
      const int m = which[i];
      const std::uint8_t* offsets =
          offsets_of(layer, odd(m)) + static_cast<long>(first) * layer.outputs + static_cast<long>(m) * pairs;
      const char* shifted = table + shift_of(odd(m));
      counter.planes = scratch + (entries + i * kept) * kWords;
      if (first == 0) {
        begin(counter, m);
      } else {
        counter.load();
      }
      if (pairs == kPart) {
        counter.ripple(tree<kPartLevels>(shifted, offsets, counter.low));
      } else {
        counter.add<kPartLevels - 1>(shifted, offsets, pairs);
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
         tree<L>(table + shift_of(start), offsets_of(layer, start) + (static_cast<long>(m) << L), counter);
}

template <class Fires>
inline __attribute__((always_inline)) void layer_with(const BitslicedLayer& layer, std::uint64_t* out,
                                                      const Fires& fires) {
  for (int m = 0; m < layer.outputs; ++m) {
    (bit_of(layer.varies, m) ? fires(m) : broadcast_bit(bit_of(layer.always, m))).store(out + m * kWords);
  }
}

// tree() for two outputs at once: each has a chain of dependent additions, and two of them overlap.
struct Pair {
  Bits first, second;
};

template <int L>
inline __attribute__((always_inline)) Pair tree_of_pair(const char* table, const std::uint8_t* first,
                                                        const std::uint8_t* second, const long (&shifts)[2],
                                                        Bits (*counter)[2]) {
  if constexpr (L == 0) {
    return {tree<0>(table + shifts[0], first, nullptr), tree<0>(table + shifts[1], second, nullptr)};
  } else {
    constexpr int half = 1 << (L - 1);
    const Pair x = tree_of_pair<L - 1>(table, first, second, shifts, counter);
    if constexpr (L == 5 && Bits::kSplitsTrees) asm volatile("" ::: "memory");
    const Pair y = tree_of_pair<L - 1>(table + half * kTableEntries * kSliceBytes, first + half, second + half, shifts,
                                       counter);
    return {counter[L - 1][0].full_add(x.first, y.first), counter[L - 1][1].full_add(x.second, y.second)};
  }
}

// bilinear_pool() of 2^L pairs of inputs. Only the outputs that are left are visited, and no branch depends on a result:
// it would be mispredicted half the time.
template <int L>
inline __attribute__((always_inline)) void pool_with(const char* table, const BitslicedLayer& layer, Bits valid,
                                                     std::uint64_t* fired) {
  for (int first = 0; first < layer.outputs; first += 64) {
    std::uint64_t& word = fired[first / 64];
    word |= layer.always[first / 64];
    std::uint64_t left = layer.varies[first / 64] & ~word;
    if constexpr (!Bits::kPairsTrees) {
      for (; left != 0; left &= left - 1) {
        const int place = __builtin_ctzll(left);
        word |= static_cast<std::uint64_t>((fires_of<L>(table, layer, first + place) & valid).any()) << place;
      }
    }
    while (left != 0) {
      int places[2];
      std::uint32_t starts[2];
      const std::uint8_t* offsets[2];
      for (int i = 0; i < 2; ++i) {
        places[i] = left != 0 ? __builtin_ctzll(left) : places[0];  // the last one alone: twice
        left &= left - 1;
        starts[i] = layer.start[first + places[i]];
        offsets[i] = offsets_of(layer, starts[i]) + (static_cast<long>(first + places[i]) << L);
      }
      Bits counter[L][2];
      for (int level = 0; level < L; ++level) {
        for (int i = 0; i < 2; ++i) counter[level][i] = broadcast_bit(starts[i] >> (level + 1));
      }
      const long shifts[2] = {shift_of(starts[0]), shift_of(starts[1])};
      const Pair carry = tree_of_pair<L>(table, offsets[0], offsets[1], shifts, counter);
      const Bits tops[2] = {broadcast_bit(starts[0] >> (L + 1)) ^ carry.first,
                            broadcast_bit(starts[1] >> (L + 1)) ^ carry.second};
      for (int i = 0; i < 2; ++i) word |= static_cast<std::uint64_t>((tops[i] & valid).any()) << places[i];
    }
  }
}

// A block with few points leaves most lanes empty. Then a register holds kParts outputs at these points instead of one
// output: the table of carries has the first part of each slice only, and every part of a register is loaded from the
// entry of its own output.
template <class Register, int L, int kParts>
inline __attribute__((always_inline)) Register tree_of_parts(const char* table, const std::uint8_t* const (&offsets)[kParts],
                                                         int first, Register* counter) {
  if constexpr (L == 0) {
    const char* from[kParts];
    for (int i = 0; i < kParts; ++i) {
      const unsigned long place = offsets[i][first];
      from[i] = table + first * (kEntries * kSliceBytes / kParts) + place * (kSliceBytes / kParts / 8);
    }
    return Register::template load_parts<kParts>(from);
  } else {
    const Register x = tree_of_parts<Register, L - 1, kParts>(table, offsets, first, counter);
    const Register y = tree_of_parts<Register, L - 1, kParts>(table, offsets, first + (1 << (L - 1)), counter);
    return counter[L - 1].full_add(x, y);
  }
}

// Slices of kParts parts of zeros or ones: bit i of the index in all lanes of part i.
template <int kParts>
struct ConstantParts {
  alignas(64) std::uint64_t slices[1 << kParts][kWords];
  constexpr ConstantParts() : slices{} {
    for (int bits = 0; bits < 1 << kParts; ++bits) {
      for (int word = 0; word < kWords; ++word) slices[bits][word] = bits >> word * kParts / kWords & 1 ? ~0ull : 0;
    }
  }
};
template <int kParts>
constexpr ConstantParts<kParts> kConstantParts{};

// bilinear_pool() of 2^L pairs for a block whose points are all in the first part of the lanes.
template <class Register, int L, int kParts>
void pool_in_parts(const std::uint64_t* slices, const BitslicedLayer& layer, const std::uint64_t* mask,
                   std::uint64_t* scratch, std::uint64_t* fired) {
  const char* table = reinterpret_cast<const char*>(scratch);
  Register parity = Register::zero();
  carries<Register, kParts>(slices, layer.inputs, layer.pairs, parity, scratch);
  const char* masks[kParts];
  for (int i = 0; i < kParts; ++i) masks[i] = reinterpret_cast<const char*>(mask);
  const Register valid = Register::template load_parts<kParts>(masks);
  for (int first = 0; first < layer.outputs; first += 64) {
    std::uint64_t& word = fired[first / 64];
    word |= layer.always[first / 64];
    for (std::uint64_t left = layer.varies[first / 64] & ~word; left != 0;) {
      const std::uint8_t* offsets[kParts];
      std::uint32_t starts[kParts];
      int places[kParts];
      for (int i = 0; i < kParts; ++i) {
        places[i] = left != 0 ? __builtin_ctzll(left) : places[0];  // too few are left: one of them again
        left &= left - 1;
        const int m = first + places[i];
        starts[i] = layer.start[m];
        offsets[i] = layer.offsets[starts[i] & 1] + (static_cast<long>(m) << L);
      }
      const auto bit = [&](int level) {
        unsigned bits = 0;
        for (int i = 0; i < kParts; ++i) bits |= (starts[i] >> (level + 1) & 1) << i;
        return Register::load(kConstantParts<kParts>.slices[bits]);
      };
      Register counter[L];
      for (int level = 0; level < L; ++level) counter[level] = bit(level);
      const Register highest = bit(L) ^ tree_of_parts<Register, L, kParts>(table, offsets, 0, counter);
      const unsigned fires = (highest & valid).template any_in_parts<kParts>();
      for (int i = 0; i < kParts; ++i) word |= static_cast<std::uint64_t>(fires >> i & 1) << places[i];
    }
  }
}

// Whether it did the work of bilinear_pool(): if the lanes in use fit into the first of kParts parts, or of more.
template <class Register, int L, int kParts>
bool pooled_in_parts(const std::uint64_t* slices, const BitslicedLayer& layer, const std::uint64_t* mask,
                     std::uint64_t* scratch, std::uint64_t* fired) {
  if constexpr (kParts > Register::kMostParts) {
    return false;
  } else {
    std::uint64_t beyond = 0;
    for (int word = kWords / kParts; word < kWords; ++word) beyond |= mask[word];
    if (beyond != 0) return false;
    if (pooled_in_parts<Register, L, 2 * kParts>(slices, layer, mask, scratch, fired)) return true;
    pool_in_parts<Register, L, kParts>(slices, layer, mask, scratch, fired);
    return true;
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
    if (pooled_in_parts<Bits, 6, 2>(slices, layer, mask, scratch, fired)) return;
    const char* table = whole_table(slices, layer, scratch);
    return pool_with<6>(table, layer, valid, fired);
  }
  if (layer.pairs == 32) {
    if (pooled_in_parts<Bits, 5, 2>(slices, layer, mask, scratch, fired)) return;
    const char* table = whole_table(slices, layer, scratch);
    return pool_with<5>(table, layer, valid, fired);
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

// The largest count of an output comes from the row with the fewest differences. It reaches T if start + count >= 2^levels,
// where start = 2^levels - T.
void bilinear_pool_rows(const std::uint64_t* rows, int count, const BitslicedLayer& layer, const std::uint64_t* tiles,
                        std::uint64_t* fired) {
  const int width = (layer.inputs + 63) / 64;
  for (int m = 0; m < layer.outputs; m += kTile, tiles += width * kTile) {
    std::uint64_t& word = fired[m / 64];
    word |= layer.always[m / 64];
    const std::uint64_t left = layer.varies[m / 64] & ~word;
    int fewest[kTile];
    for (int j = 0; j < kTile; ++j) fewest[j] = layer.inputs;
    for (int i = 0; i < count; ++i) {
      int differ[kTile] = {};
      for (int w = 0; w < width; ++w) {
        for (int j = 0; j < kTile; ++j) differ[j] += popcount(rows[i * width + w] ^ tiles[w * kTile + j]);
      }
      for (int j = 0; j < kTile; ++j) fewest[j] = differ[j] < fewest[j] ? differ[j] : fewest[j];
    }
    for (int j = 0; j < kTile && m + j < layer.outputs; ++j) {
      const int reached = static_cast<int>(layer.start[m + j]) + layer.inputs - fewest[j] >= 1 << layer.levels;
      word |= left & static_cast<std::uint64_t>(reached) << (m % 64 + j);
    }
  }
}

// Swaps the off-diagonal quarters of squares of 2 kBits x 2 kBits bits. Rows that are kBits apart are kStep words apart.
template <int kBits, int kStep>
inline __attribute__((always_inline)) void swap_quarters(std::uint64_t* words, std::uint64_t mask) {
  for (int first = 0; first < 64; first += 2 * kStep) {
    for (int i = first; i < first + kStep; ++i) {
      const std::uint64_t swapped = (words[i] >> kBits ^ words[i + kStep]) & mask;
      words[i] ^= swapped << kBits;
      words[i + kStep] ^= swapped;
    }
  }
}

// Rows next to each other would be in one register, so before the last two steps row 4 i + j moves to 16 j + i.
void transpose_bits(std::uint64_t* words) {
  alignas(64) std::uint64_t far[64];
  swap_quarters<32, 32>(words, 0x00000000ffffffff);
  swap_quarters<16, 16>(words, 0x0000ffff0000ffff);
  swap_quarters<8, 8>(words, 0x00ff00ff00ff00ff);
  swap_quarters<4, 4>(words, 0x0f0f0f0f0f0f0f0f);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) far[16 * j + i] = words[4 * i + j];
  }
  swap_quarters<2, 32>(far, 0x3333333333333333);
  swap_quarters<1, 16>(far, 0x5555555555555555);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) words[4 * i + j] = far[16 * j + i];
  }
}
