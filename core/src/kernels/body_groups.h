// Part of body.h: the kernels on blocks of groups. A group is a field of kField successive lanes: 8, 16, 32 or 64.

inline std::uint64_t every_output(int outputs, int word) {
  const int left = outputs - 64 * word;
  return left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
}

// The functions of an instruction set for groups, for a field that is known at run time. So the loops over outputs are
// compiled once, not once per field.
inline Bits spread(int field, const std::uint32_t* codes, int bit) {
  switch (field) {
    case 8: return spread<8>(codes, bit);
    case 16: return spread<16>(codes, bit);
    case 32: return spread<32>(codes, bit);
    default: return spread<64>(codes, bit);
  }
}

inline std::uint64_t any_in_groups(int field, Bits lanes) {
  switch (field) {
    case 8: return any_in_groups<8>(lanes);
    case 16: return any_in_groups<16>(lanes);
    case 32: return any_in_groups<32>(lanes);
    default: return any_in_groups<64>(lanes);
  }
}

inline Bits none_in_groups(int field, Bits lanes) {
  switch (field) {
    case 8: return none_in_groups<8>(lanes);
    case 16: return none_in_groups<16>(lanes);
    case 32: return none_in_groups<32>(lanes);
    default: return none_in_groups<64>(lanes);
  }
}

// A threshold T per group. With c agreements, of which `carries` pairs were counted and s = c mod 2 is left over,
//
//     c >= T    if and only if    carries + (s and T odd) >= ceil(T / 2)
//
// So the counter of the carries starts at 2^(levels - 1) - ceil(T / 2), which differs between lanes, and at the end the
// lowest bit is added where T is odd. engine/pooled.cpp writes this initial value and the flags of T into a code.
void bilinear_pool_groups(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                          const std::uint32_t* codes, int stride, const std::uint32_t* counts, std::uint64_t* scratch,
                          std::uint64_t* fired) {
  const int groups = kLanes / field;
  alignas(64) std::uint32_t own[kLanes / 8];
  const auto load = [&](int m) {
    for (int g = 0; g < groups; ++g) own[g] = codes[static_cast<long>(m) * stride + counts[g]];
  };
  each_batch(
      layer.outputs, [&](int word) { return every_output(layer.outputs, word); },
      [&](const std::uint16_t* which, int number) {
        Bits parity;
        count_from(
            slices, layer, which, number, scratch, parity,
            [&](Counter& counter, int m) {
              load(m);
              for (int level = 0; level < kPartLevels; ++level) counter.low[level] = spread(field, own, level);
              for (int level = kPartLevels; level < counter.levels; ++level) {
                spread(field, own, level).store(counter.planes + level * kWords);
              }
            },
            [](int) { return 0; },
            [&](int m, const std::uint64_t* planes) {
              load(m);
              const int top = layer.levels - 1;
              Bits carry = parity ^ broadcast_bit(bit_of(layer.odd, m));
              carry = carry & spread(field, own, kOddCode);
              for (int level = 0; level < top; ++level) carry = carry & Bits::load(planes + level * kWords);
              fired[m] = any_in_groups(field, Bits::load(planes + top * kWords) ^ carry);
              std::uint32_t flags = 0;
              for (int g = 0; g < groups; ++g) flags |= own[g];
              if (flags >> kAlwaysCode == 0) return;
              for (int g = 0; g < groups; ++g) {
                fired[m] |= std::uint64_t{own[g] >> kAlwaysCode & 1} << g;
                fired[m] &= ~(std::uint64_t{own[g] >> kNeverCode & 1} << g);
              }
            });
      });
}

void bilinear_pool_alike(const std::uint64_t* slices, const BitslicedLayer& layer, int field, std::uint64_t* scratch,
                         std::uint64_t* out, std::uint64_t* fired) {
  bilinear(slices, layer, scratch, out);
  for (int m = 0; m < layer.outputs; ++m) fired[m] = any_in_groups(field, Bits::load(out + m * kWords));
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
  const int groups = kLanes / field;
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
            candidates = left ^ (candidates & none_in_groups(field, left));
            some[level + 1] = any_in_groups(field, left);
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
      out[static_cast<long>(c) * kLanes + lane] = rows[static_cast<std::size_t>(index[lane]) * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)];
    }
  }
}

void max_groups(const float* rows, int channels, int field, int groups, float* largest, int stride) {
  for (int k = 0; k < channels; ++k, rows += kLanes) {
    for (int g = 0; g < groups; ++g) {
      const float* x = rows + g * field;
      float best[8];
      for (int j = 0; j < 8; ++j) best[j] = -__builtin_inff();
      for (int i = 0; i < field; i += 8) {
        for (int j = 0; j < 8; ++j) best[j] = best[j] < x[i + j] ? x[i + j] : best[j];
      }
      for (int j = 0; j < 4; ++j) best[j] = best[j] < best[j + 4] ? best[j + 4] : best[j];
      for (int j = 0; j < 2; ++j) best[j] = best[j] < best[j + 2] ? best[j + 2] : best[j];
      best[0] = best[0] < best[1] ? best[1] : best[0];
      float& most = largest[static_cast<long>(g) * stride + k];
      most = most < best[0] ? best[0] : most;
    }
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
