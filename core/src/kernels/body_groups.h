// Part of body.h: the kernels on blocks of groups.

inline std::uint64_t every_output(int outputs, int word) {
  const int left = outputs - 64 * word;
  return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

// The lanes of the groups of a block, for a number of lanes per group that is known at run time. So the loops over
// outputs are compiled once, not once per number. 8, 16, 32 and 64 lanes have functions of the instruction set. Of any
// other number as many groups as fit are in each word, and group g is in word g % kWords. kFixed: the number, if it is known
// when compiling, else 0.
template <int kFixed>
class Fields {
 public:
  explicit Fields(int field) : field_(kFixed > 0 ? kFixed : field), per_word_(64 / field_) {
    for (int i = 0; i < per_word_ * kWords; ++i) {
      masks_[i] = (~std::uint64_t{0} >> (64 - field_)) << (i / kWords * field_);
    }
  }

  int groups() const { return per_word_ * kWords; }

  // All ones in the lanes of group g if bit `bit` of codes[g] is set, else zeros.
  Bits spread(const std::uint32_t* codes, int bit) const {
    switch (kFixed > 0 ? kFixed : field_) {
      case 8: return spread_to<8>(codes, bit);
      case 16: return spread_to<16>(codes, bit);
      case 32: return spread_to<32>(codes, bit);
      case 64: return spread_to<64>(codes, bit);
      default:
        return together([&](int f) { return spread_to<64>(codes + f * kWords, bit) & mask(f); });
    }
  }

  // Bit g: whether some lane of group g is 1.
  std::uint64_t any(Bits lanes) const {
    switch (kFixed > 0 ? kFixed : field_) {
      case 8: return any_in_groups<8>(lanes);
      case 16: return any_in_groups<16>(lanes);
      case 32: return any_in_groups<32>(lanes);
      case 64: return any_in_groups<64>(lanes);
      default: break;
    }
    std::uint64_t groups = 0;
    for (int f = 0; f < per_word_; ++f) groups |= any_in_groups<64>(lanes & mask(f)) << (f * kWords);
    return groups;
  }

  // All ones in the lanes of each group without a 1.
  Bits none(Bits lanes) const {
    switch (kFixed > 0 ? kFixed : field_) {
      case 8: return none_in_groups<8>(lanes);
      case 16: return none_in_groups<16>(lanes);
      case 32: return none_in_groups<32>(lanes);
      case 64: return none_in_groups<64>(lanes);
      default: return together([&](int f) { return none_in_groups<64>(lanes & mask(f)) & mask(f); });
    }
  }

 private:
  Bits mask(int f) const { return Bits::load(masks_ + f * kWords); }

  template <class Part>
  Bits together(const Part& part) const {
    Bits all = part(0);
    for (int f = 1; f < per_word_; ++f) all = all ^ part(f);
    return all;
  }

  int field_, per_word_;
  alignas(64) std::uint64_t masks_[8 * kWords];
};

// A threshold T per group. With c agreements, of which `carries` pairs were counted and s = c mod 2 is left over,
//
//     c >= T    if and only if    carries + (s and T odd) >= ceil(T / 2)
//
// So the counter of the carries starts at 2^(levels - 1) - ceil(T / 2), which differs between lanes, and at the end the
// lowest bit is added where T is odd. engine/pooled.cpp writes this initial value and the flags of T into a code.
template <int kFixed>
class ThresholdPerGroup {
 public:
  ThresholdPerGroup(const BitslicedLayer& layer, int field, const std::uint32_t* codes)
      : layer_(layer), fields_(field), codes_(codes) {}

  // The bits of the initial value of the counter of output m.
  Bits start(int m, int level) const { return fields_.spread(own(m), level); }

  // Which groups fire: `top` is the highest bit of the counter of output m, all(carry) keeps the lanes of `carry` in which
  // all other bits are 1.
  template <class All>
  std::uint64_t fired(int m, Bits parity, Bits top, const All& all) const {
    const std::uint32_t* codes = own(m);
    const Bits lowest = parity ^ broadcast_bit(bit_of(layer_.odd, m));
    const Bits reached = top ^ all(lowest & fields_.spread(codes, kOddCode));
    const Bits varies = reached & fields_.spread(codes, kConstantCode).complement();
    return fields_.any(varies ^ fields_.spread(codes, kAlwaysCode));
  }

 private:
  const std::uint32_t* own(int m) const { return codes_ + static_cast<long>(m) * fields_.groups(); }

  const BitslicedLayer& layer_;
  Fields<kFixed> fields_;
  const std::uint32_t* codes_;
};

// With 2^L pairs of inputs the whole counter is in registers, as in fires_of().
template <int L, int kFixed>
inline void pool_groups_of(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                           const std::uint32_t* codes, std::uint64_t* scratch, std::uint64_t* fired) {
  const ThresholdPerGroup<kFixed> groups(layer, field, codes);
  Bits parity = Bits::zero();
  carries(slices, layer.inputs, layer.pairs, parity, scratch);
  const char* table = reinterpret_cast<const char*>(scratch);
  for (int m = 0; m < layer.outputs; ++m) {
    Bits counter[L];
    for (int level = 0; level < L; ++level) counter[level] = groups.start(m, level);
    const Bits top = groups.start(m, L) ^ tree<L>(table, layer.offsets[0] + (static_cast<long>(m) << L), counter);
    fired[m] = groups.fired(m, parity, top, [&](Bits carry) {
      for (int level = 0; level < L; ++level) carry = carry & counter[level];
      return carry;
    });
  }
}

void bilinear_pool_groups(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                          const std::uint32_t* codes, std::uint64_t* scratch, std::uint64_t* fired) {
  // Clouds of more than 32 points that share a block have fields of 64 lanes, so this case has its own code.
  if (layer.pairs == 64 && field == 64) return pool_groups_of<6, 64>(slices, layer, field, codes, scratch, fired);
  if (layer.pairs == 64) return pool_groups_of<6, 0>(slices, layer, field, codes, scratch, fired);
  if (layer.pairs == 32) return pool_groups_of<5, 0>(slices, layer, field, codes, scratch, fired);
  const ThresholdPerGroup<0> groups(layer, field, codes);
  each_batch(
      layer.outputs, [&](int word) { return every_output(layer.outputs, word); },
      [&](const std::uint16_t* which, int number) {
        Bits parity;
        count_from(
            slices, layer, which, number, scratch, parity,
            [&](Counter& counter, int m) {
              for (int level = 0; level < kPartLevels; ++level) counter.low[level] = groups.start(m, level);
              for (int level = kPartLevels; level < counter.levels; ++level) {
                groups.start(m, level).store(counter.planes + level * kWords);
              }
            },
            [](int) { return 0; },
            [&](int m, const std::uint64_t* planes) {
              const int top = layer.levels - 1;
              fired[m] = groups.fired(m, parity, Bits::load(planes + top * kWords), [&](Bits carry) {
                for (int level = 0; level < top; ++level) carry = carry & Bits::load(planes + level * kWords);
                return carry;
              });
            });
      });
}

void bilinear_pool_alike(const std::uint64_t* slices, const BitslicedLayer& layer, int field, std::uint64_t* scratch,
                         std::uint64_t* out, std::uint64_t* fired) {
  const Fields<0> fields(field);
  bilinear(slices, layer, scratch, out);
  for (int m = 0; m < layer.outputs; ++m) fired[m] = fields.any(Bits::load(out + m * kWords));
}

// Transposes 8 x 8 bits, byte by byte, by swapping squares of growing size.
inline std::uint64_t transpose_bits(std::uint64_t x) {
  const auto swap = [&](int distance, std::uint64_t mask) {
    const std::uint64_t moved = (x ^ (x >> distance)) & mask;
    x ^= moved ^ (moved << distance);
  };
  swap(7, 0x00aa00aa00aa00aa);
  swap(14, 0x0000cccc0000cccc);
  swap(28, 0x00000000f0f0f0f0);
  return x;
}

// The largest count of each group, from the highest bit to the lowest: where some lane that is still a candidate has the
// bit, only such lanes remain candidates. some[i] has bit i of the counts of all groups; it is transposed at the end.
void bilinear_max_counts(const std::uint64_t* slices, const BitslicedLayer& layer, int field, std::uint64_t* scratch,
                         int* counts, int stride) {
  const Fields<0> fields(field);
  const int groups = fields.groups();
  each_batch(
      layer.outputs, [&](int word) { return layer.varies[word]; },
      [&](const std::uint16_t* which, int number) {
        Bits parity;
        count(slices, layer, which, number, scratch, parity, [&](int m, const std::uint64_t* planes) {
          static_assert(kMaxLevels < 16, "a count has at most 16 bits");
          std::uint64_t some[16];
          for (int i = layer.levels + 1; i < 16; ++i) some[i] = 0;
          Bits candidates = broadcast_bit(1);
          for (int level = layer.levels - 1; level >= -1; --level) {
            const Bits plane = level >= 0 ? Bits::load(planes + level * kWords)
                                          : parity ^ broadcast_bit(bit_of(layer.odd, m));
            const Bits left = plane & candidates;
            candidates = left ^ (candidates & fields.none(left));
            some[level + 1] = fields.any(left);
          }
          for (int first = 0; first < groups; first += 8) {
            std::uint64_t low = 0, high = 0;  // one byte per bit of the counts, then one byte per group
            for (int i = 0; i < 8; ++i) {
              low |= (some[i] >> first & 0xff) << (8 * i);
              high |= (some[8 + i] >> first & 0xff) << (8 * i);
            }
            low = transpose_bits(low);
            if (layer.levels >= 8) high = transpose_bits(high);
            for (int g = 0; g < 8 && first + g < groups; ++g, low >>= 8, high >>= 8) {
              counts[static_cast<long>(first + g) * stride + m] = static_cast<int>((low & 0xff) | (high & 0xff) << 8);
            }
          }
        });
      });
}

// Transposes `rows` x `columns` floats, in squares that stay in registers where the instruction set has them.
inline __attribute__((always_inline)) void transpose_all(const float* from, long from_stride, int rows, int columns,
                                                         float* to, long to_stride) {
  int r = 0;
  for (; r + kSquare <= rows; r += kSquare) {
    int c = 0;
    for (; c + kSquare <= columns; c += kSquare) {
      transpose_square(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
    for (; c < columns; ++c) {
      for (int i = 0; i < kSquare; ++i) to[c * to_stride + r + i] = from[(r + i) * from_stride + c];
    }
  }
  for (; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

void transpose_floats(const float* from, int from_stride, int rows, int columns, float* to, int to_stride) {
  transpose_all(from, from_stride, rows, columns, to, to_stride);
}

void gather_floats(const float* rows, int channels, const std::uint32_t* index, float* out) {
  int c = 0;
  for (; c + kSquare <= channels; c += kSquare) {
    for (int lane = 0; lane < kLanes; lane += kSquare) {
      gather_square(rows + c, channels, index + lane, out + static_cast<long>(c) * kLanes + lane, kLanes);
    }
  }
  for (; c < channels; ++c) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t row = std::uint64_t{index[lane]} * static_cast<std::uint64_t>(channels);
      out[static_cast<long>(c) * kLanes + lane] = rows[row + static_cast<std::uint64_t>(c)];
    }
  }
}

void max_group(const float* rows, int channels, int elements, float* largest) {
  for (int k = 0; k < channels; ++k, rows += kLanes) {
    float best[8];
    for (int j = 0; j < 8; ++j) best[j] = largest[k];
    int i = 0;
    for (; i + 8 <= elements; i += 8) {
      for (int j = 0; j < 8; ++j) best[j] = best[j] < rows[i + j] ? rows[i + j] : best[j];
    }
    for (int j = 0; i + j < elements; ++j) best[j] = best[j] < rows[i + j] ? rows[i + j] : best[j];
    for (int j = 0; j < 4; ++j) best[j] = best[j] < best[j + 4] ? best[j + 4] : best[j];
    for (int j = 0; j < 2; ++j) best[j] = best[j] < best[j + 2] ? best[j + 2] : best[j];
    largest[k] = best[0] < best[1] ? best[1] : best[0];
  }
}

// Elements are rows here, so that the channels of x, which are contiguous, are the vectors. A tile of kTileRows x
// kTileColumns sums stays in registers.
constexpr int kTileRows = 4, kTileRegs = 2, kTileColumns = kTileRegs * Floats::kWidth;

// sums[r][c] = sum over e of weight(e, r) x[e][c], in order, for one tile; continues the given sums unless `first`.
template <class Weight>
inline __attribute__((always_inline)) void add_tile(const Weight& weight, const float* x, long stride, int elements,
                                                    bool first, float* sums, long sum_stride) {
  Floats total[kTileRows][kTileRegs];
  for (int r = 0; r < kTileRows; ++r) {
    for (int i = 0; i < kTileRegs; ++i) {
      const int at = i * Floats::kWidth;
      total[r][i] = first ? Floats::load_any(x + at).mul(Floats::broadcast(weight(0, r)))
                          : Floats::load_any(sums + r * sum_stride + at);
    }
  }
  for (int e = first ? 1 : 0; e < elements; ++e) {
    Floats row[kTileRegs];
    for (int i = 0; i < kTileRegs; ++i) row[i] = Floats::load_any(x + e * stride + i * Floats::kWidth);
    for (int r = 0; r < kTileRows; ++r) {
      const Floats w = Floats::broadcast(weight(e, r));
      for (int i = 0; i < kTileRegs; ++i) total[r][i] = total[r][i].add(row[i].mul(w));
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int i = 0; i < kTileRegs; ++i) total[r][i].store_any(sums + r * sum_stride + i * Floats::kWidth);
  }
}

// The same for a part of a tile.
template <class Weight>
inline void add_part(const Weight& weight, const float* x, long stride, int elements, int rows, int columns, bool first,
                     float* sums, long sum_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      float total = first ? weight(0, r) * x[c] : sums[r * sum_stride + c];
      for (int e = first ? 1 : 0; e < elements; ++e) total += weight(e, r) * x[e * stride + c];
      sums[r * sum_stride + c] = total;
    }
  }
}

template <class Weight>
inline __attribute__((always_inline)) void add_tiles(const Weight& weight, int rows, const float* x, int channels,
                                                     int elements, bool first, float* sums) {
  for (int r = 0; r < rows; r += kTileRows) {
    const int height = rows - r < kTileRows ? rows - r : kTileRows;
    const auto own = [&](int e, int row) __attribute__((always_inline)) { return weight(e, r + row); };
    for (int c = 0; c < channels; c += kTileColumns) {
      const int width = channels - c < kTileColumns ? channels - c : kTileColumns;
      float* to = sums + static_cast<long>(r) * channels + c;
      if (height == kTileRows && width == kTileColumns) {
        add_tile(own, x + c, channels, elements, first, to, channels);
      } else {
        add_part(own, x + c, channels, elements, height, width, first, to, channels);
      }
    }
  }
}

void outer_sums(const float* w, int weights, const float* x, int channels, int elements, bool first, float* sums) {
  add_tiles([&](int e, int r) __attribute__((always_inline)) { return w[static_cast<long>(r) * kLanes + e]; }, weights,
            x, channels, elements, first, sums);
}

void mix_slots(const float* matrix, int slots, int rows, const float* x, int channels, float* out) {
  add_tiles([&](int j, int i) __attribute__((always_inline)) { return matrix[i * slots + j]; }, rows, x, channels, slots,
            true, out);
}

void slot_signs(const float* x, int slots, int channels, float at, std::uint32_t* __restrict signs) {
  for (int c = 0; c < channels; ++c) signs[c] = x[c] >= at ? 1u : 0u;
  for (int j = 1; j < slots; ++j) {
    const float* slot = x + static_cast<long>(j) * channels;
    const std::uint32_t bit = std::uint32_t{1} << j;
    for (int c = 0; c < channels; ++c) signs[c] |= slot[c] >= at ? bit : 0u;
  }
}
