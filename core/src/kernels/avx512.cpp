// AVX-512 kernels: 512 points per register; a full adder is two VPTERNLOG.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 512;

struct Bits {
  static constexpr int kMostParts = 4;
  static constexpr bool kOneCopy = false;
  static constexpr bool kSplitsTrees = false;
  static constexpr bool kPairsTrees = true;
  __m512i v;
  static Bits load(const std::uint64_t* p) { return {_mm512_load_si512(p)}; }
  static Bits zero() { return {_mm512_setzero_si512()}; }
  void store(std::uint64_t* p) const { _mm512_store_si512(p, v); }
  Bits operator&(Bits o) const { return {_mm512_and_si512(v, o.v)}; }
  Bits operator^(Bits o) const { return {_mm512_xor_si512(v, o.v)}; }
  Bits complement() const { return {_mm512_ternarylogic_epi64(v, v, v, 0x55)}; }
  bool any() const { return _mm512_test_epi64_mask(v, v) != 0; }
  template <int kParts>
  static Bits load_parts(const char* const (&from)[kParts]) {
    if constexpr (kParts == 2) {
      const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(from[0]));
      const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(from[1]));
      return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
    } else {
      const auto part = [&](int i) { return _mm_load_si128(reinterpret_cast<const __m128i*>(from[i])); };
      const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(part(0)), part(1), 1);
      const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(part(2)), part(3), 1);
      return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
    }
  }
  template <int kParts>
  void store_part(std::uint64_t* p) const {
    if constexpr (kParts == 2) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(v));
    } else {
      _mm_store_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(v));
    }
  }
  template <int kParts>
  unsigned any_in_parts() const {
    const unsigned words = _mm512_test_epi64_mask(v, v);
    unsigned parts = 0;
    for (int i = 0; i < kParts; ++i) parts |= ((words >> (i * 8 / kParts) & ((1u << 8 / kParts) - 1)) != 0) << i;
    return parts;
  }
  // *this becomes the sum bit of *this, x and y; returns the carry. VPTERNLOG overwrites its first operand, so the
  // carry is computed from the new sum: it is x where x = y, else the old bit, which is the complement of the new one.
  // This way no register is copied.
  Bits full_add(Bits x, Bits y) {
    v = _mm512_ternarylogic_epi64(v, x.v, y.v, 0x96);       // v ^ x ^ y
    return {_mm512_ternarylogic_epi64(x.v, v, y.v, 0xb2)};  // x == y ? x : ~v
  }
};

struct Floats {
  static constexpr int kWidth = 16, kPointRegs = 4, kRows = 4;
  static constexpr bool kHasFma = true;
  __m512 v;
  static Floats load(const float* p) { return {_mm512_load_ps(p)}; }
  static Floats load_any(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Floats from_bytes(const std::uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_store_ps(p, v); }
  void store_any(float* p) const { _mm512_storeu_ps(p, v); }
  Floats mul(Floats o) const { return {_mm512_mul_ps(v, o.v)}; }
  Floats add(Floats o) const { return {_mm512_add_ps(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return {_mm512_fmadd_ps(x.v, y.v, v)}; }
  static Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
  unsigned ge_mask(Floats o) const { return _mm512_cmp_ps_mask(v, o.v, _CMP_GE_OQ); }
};

struct Doubles {
  static constexpr int kWidth = 8;
  __m512d v;
  static Doubles load(const double* p) { return {_mm512_load_pd(p)}; }
  static Doubles broadcast(double x) { return {_mm512_set1_pd(x)}; }
  void store(double* p) const { _mm512_store_pd(p, v); }
  Doubles add(Doubles o) const { return {_mm512_add_pd(v, o.v)}; }
  Doubles sub(Doubles o) const { return {_mm512_sub_pd(v, o.v)}; }
  Doubles mul(Doubles o) const { return {_mm512_mul_pd(v, o.v)}; }
  Doubles fma(Doubles x, Doubles y) const { return {_mm512_fmadd_pd(x.v, y.v, v)}; }
  static Doubles max(Doubles a, Doubles b) { return {_mm512_max_pd(a.v, b.v)}; }
  static Doubles min(Doubles a, Doubles b) { return {_mm512_min_pd(a.v, b.v)}; }
  unsigned le_mask(Doubles o) const { return _mm512_cmp_pd_mask(v, o.v, _CMP_LE_OQ); }
  unsigned gt_mask(Doubles o) const { return _mm512_cmp_pd_mask(v, o.v, _CMP_GT_OQ); }
  // The low bits of v + 2^52 + 1023 are the exponent of 2^v.
  Doubles pow2() const {
    const __m512d exponent = _mm512_add_pd(v, _mm512_set1_pd(0x1p52 + 1023));
    return {_mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(exponent), 52))};
  }
};

struct Keys {
  static constexpr int kWidth = 8;
  __m512i v;
  static Keys load(const std::int64_t* p) { return {_mm512_loadu_si512(p)}; }
  static Keys broadcast(std::int64_t x) { return {_mm512_set1_epi64(x)}; }
  void store(std::int64_t* p) const { _mm512_store_si512(p, v); }
  Keys add_less(Keys a, Keys b) const {
    return {_mm512_mask_add_epi64(v, _mm512_cmplt_epi64_mask(a.v, b.v), v, _mm512_set1_epi64(1))};
  }
  int count_below(Keys o) const { return __builtin_popcount(_mm512_cmplt_epi64_mask(v, o.v)); }
};

// Appends the keys of the kRegs registers of points with D <= limit; returns how many. May write up to kKeyPad more.
template <int kRegs>
inline __attribute__((always_inline)) int append_keys(const Doubles (&squares)[kRegs], Doubles limit,
                                                      const std::uint32_t* labels, std::uint64_t room,
                                                      std::int64_t* keys) {
  const __m512i mask = _mm512_set1_epi64(static_cast<std::int64_t>(room));
  int found = 0;
  for (int g = 0; g < kRegs; ++g) {
    const auto inside = static_cast<__mmask8>(squares[g].le_mask(limit));
    const __m512i own = _mm512_cvtepu32_epi64(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(labels + g * Doubles::kWidth)));
    const __m512i key = _mm512_or_si512(_mm512_andnot_si512(mask, _mm512_castpd_si512(squares[g].v)), own);
    _mm512_storeu_si512(keys + found, _mm512_maskz_compress_epi64(inside, key));
    found += __builtin_popcount(inside);
  }
  return found;
}

// Moves the keys below `border` to the front; pads follow them.
inline void move_below(std::int64_t* keys, int count, std::int64_t border) {
  const __m512i limit = _mm512_set1_epi64(border);
  for (int i = 0, kept = 0; i < count; i += Keys::kWidth) {
    const __m512i key = _mm512_loadu_si512(keys + i);
    const __mmask8 below = _mm512_cmplt_epi64_mask(key, limit);
    _mm512_storeu_si512(keys + kept, _mm512_maskz_compress_epi64(below, key));
    kept += __builtin_popcount(below);
  }
}

struct Ints {
  static constexpr int kWidth = 16, kRows = 12;
  __m512i v;
  static Ints load(const std::int32_t* p) { return {_mm512_load_si512(p)}; }
  static Ints broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  void store(std::int32_t* p) const { _mm512_store_si512(p, v); }
  Ints add(Ints o) const { return {_mm512_add_epi32(v, o.v)}; }
  Ints sub(Ints o) const { return {_mm512_sub_epi32(v, o.v)}; }
  Ints add_products(Ints a, Ints b) const { return {_mm512_add_epi32(v, _mm512_madd_epi16(a.v, b.v))}; }
  unsigned le_mask(Ints o) const { return _mm512_cmple_epi32_mask(v, o.v); }
};

inline int popcount(std::uint64_t word) { return __builtin_popcountll(word); }

// One word of a slice is a mask for 64 bytes.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  for (int word = 0; word < kLanes / 64; ++word) {
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < count; ++i) {
      const __m512i place = _mm512_set1_epi8(static_cast<char>(1 << i));
      sum = _mm512_mask_add_epi8(sum, slices[i * kLanes / 64 + word], sum, place);
    }
    _mm512_store_si512(bytes + 64 * word, sum);
  }
}

// All ones in the lanes of group g if bit `bit` of codes[g] is set, else zeros. A group is kField lanes.
template <int kField>
inline __attribute__((always_inline)) Bits spread_to(const std::uint32_t* codes, int bit) {
  const auto sixteen = [&](int first) {
    return static_cast<std::uint64_t>(
        _mm512_test_epi32_mask(_mm512_load_si512(codes + first), _mm512_set1_epi32(static_cast<int>(1u << bit))));
  };
  if constexpr (kField == 64) {
    const __m512i own = _mm512_cvtepu32_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(codes)));
    return {_mm512_movm_epi64(_mm512_test_epi64_mask(own, _mm512_set1_epi64(1ll << bit)))};
  } else if constexpr (kField == 32) {
    return {_mm512_movm_epi32(static_cast<__mmask16>(sixteen(0)))};
  } else if constexpr (kField == 16) {
    return {_mm512_movm_epi16(static_cast<__mmask32>(sixteen(0) | sixteen(16) << 16))};
  } else {
    return {_mm512_movm_epi8(sixteen(0) | sixteen(16) << 16 | sixteen(32) << 32 | sixteen(48) << 48)};
  }
}

// Bit g: whether some lane of group g is 1.
template <int kField>
inline __attribute__((always_inline)) std::uint64_t any_in_groups(Bits lanes) {
  if constexpr (kField == 64) return _mm512_test_epi64_mask(lanes.v, lanes.v);
  if constexpr (kField == 32) return _mm512_test_epi32_mask(lanes.v, lanes.v);
  if constexpr (kField == 16) return _mm512_test_epi16_mask(lanes.v, lanes.v);
  return _mm512_test_epi8_mask(lanes.v, lanes.v);
}

// All ones in the lanes of each group without a 1.
template <int kField>
inline __attribute__((always_inline)) Bits none_in_groups(Bits lanes) {
  if constexpr (kField == 64) return {_mm512_movm_epi64(_mm512_testn_epi64_mask(lanes.v, lanes.v))};
  if constexpr (kField == 32) return {_mm512_movm_epi32(_mm512_testn_epi32_mask(lanes.v, lanes.v))};
  if constexpr (kField == 16) return {_mm512_movm_epi16(_mm512_testn_epi16_mask(lanes.v, lanes.v))};
  return {_mm512_movm_epi8(_mm512_testn_epi8_mask(lanes.v, lanes.v))};
}

#include "kernels/squares_sse.h"

#include "kernels/body.h"

__attribute__((target("avx512vpopcntdq"))) void agreements_popcount(const std::uint64_t* bits,
                                                                    const std::uint64_t* tiles, int inputs, int outputs,
                                                                    int* counts) {
  const int width = (inputs + 63) / 64;
  const __m512i most = _mm512_set1_epi64(inputs);
  for (int m = 0; m < outputs; m += kTile) {
    __m512i differ = _mm512_setzero_si512();
    for (int word = 0; word < width; ++word, tiles += kTile) {
      const __m512i a = _mm512_set1_epi64(static_cast<long long>(bits[word])), w = _mm512_loadu_si512(tiles);
      differ = _mm512_add_epi64(differ, _mm512_popcnt_epi64(_mm512_xor_si512(a, w)));
    }
    const __m256i agree = _mm512_cvtepi64_epi32(_mm512_sub_epi64(most, differ));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(counts + m), agree);
  }
}

// body_slices.h explains the arithmetic. kWidth: words per row, or 0 for any number.
template <int kWidth>
__attribute__((target("avx512vpopcntdq"))) void pool_rows(const std::uint64_t* rows, int count,
                                                          const BitslicedLayer& layer, const std::uint64_t* tiles,
                                                          std::uint64_t* fired) {
  const int width = kWidth > 0 ? kWidth : (layer.inputs + 63) / 64;
  const __m512i most = _mm512_set1_epi64(layer.inputs), power = _mm512_set1_epi64(1ll << layer.levels);
  for (int m = 0; m < layer.outputs; m += kTile, tiles += width * kTile) {
    std::uint64_t& word = fired[m / 64];
    word |= layer.always[m / 64];
    const auto left = static_cast<__mmask8>((layer.varies[m / 64] & ~word) >> m % 64);
    if (left == 0) continue;
    __m512i fewest = most;
    const std::uint64_t* row = rows;
    for (int i = 0; i < count; ++i, row += width) {
      __m512i differ = _mm512_setzero_si512();
      for (int w = 0; w < width; ++w) {
        const __m512i bits = _mm512_set1_epi64(static_cast<long long>(row[w]));
        const __m512i weights = _mm512_loadu_si512(tiles + w * kTile);
        differ = _mm512_add_epi64(differ, _mm512_popcnt_epi64(_mm512_xor_si512(bits, weights)));
      }
      fewest = _mm512_min_epu64(fewest, differ);
    }
    const __m512i start = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(left, layer.start + m));
    const __m512i sum = _mm512_add_epi64(start, _mm512_sub_epi64(most, fewest));
    word |= static_cast<std::uint64_t>(_mm512_mask_cmpge_epu64_mask(left, sum, power)) << m % 64;
  }
}

void bilinear_pool_rows_popcount(const std::uint64_t* rows, int count, const BitslicedLayer& layer,
                                 const std::uint64_t* tiles, std::uint64_t* fired) {
  const auto pool = layer.inputs <= 64 ? pool_rows<1> : layer.inputs <= 128 ? pool_rows<2> : pool_rows<0>;
  pool(rows, count, layer, tiles, fired);
}

// keep ? a : b, bit by bit.
inline __m512i chosen(__m512i keep, __m512i a, __m512i b) { return _mm512_ternarylogic_epi64(keep, a, b, 0xca); }

// Swaps the off-diagonal quarters of squares of 2 kBits x 2 kBits bits, whose rows are in registers kStep apart.
template <int kBits, int kStep>
inline __attribute__((always_inline)) void swap_registers(__m512i* rows, long long low) {
  const __m512i keep = _mm512_set1_epi64(low), other = _mm512_set1_epi64(~low);
  for (int i = 0; i < 8; ++i) {
    if (i / kStep % 2 != 0) continue;
    const __m512i a = rows[i], b = rows[i + kStep];
    rows[i] = chosen(keep, a, _mm512_rol_epi64(b, kBits));
    rows[i + kStep] = chosen(other, b, _mm512_ror_epi64(a, kBits));
  }
}

// The same for rows within a register: the partner of a row is kBits rows away.
template <int kBits>
inline __attribute__((always_inline)) void swap_in_registers(__m512i* rows, long long low) {
  const __m512i row = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), bit = _mm512_set1_epi64(kBits);
  const __mmask8 upper = _mm512_test_epi64_mask(row, bit);
  const __m512i partner = _mm512_xor_si512(row, bit);
  const __m512i keep = _mm512_mask_set1_epi64(_mm512_set1_epi64(low), upper, ~low);
  const __m512i turn = _mm512_mask_set1_epi64(bit, upper, 64 - kBits);
  for (int i = 0; i < 8; ++i) {
    rows[i] = chosen(keep, rows[i], _mm512_rolv_epi64(_mm512_permutexvar_epi64(partner, rows[i]), turn));
  }
}

void transpose_bits_in_registers(std::uint64_t* words) {
  __m512i rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = _mm512_loadu_si512(words + 8 * i);
  swap_registers<32, 4>(rows, 0x00000000ffffffff);
  swap_registers<16, 2>(rows, 0x0000ffff0000ffff);
  swap_registers<8, 1>(rows, 0x00ff00ff00ff00ff);
  swap_in_registers<4>(rows, 0x0f0f0f0f0f0f0f0f);
  swap_in_registers<2>(rows, 0x3333333333333333);
  swap_in_registers<1>(rows, 0x5555555555555555);
  for (int i = 0; i < 8; ++i) _mm512_storeu_si512(words + 8 * i, rows[i]);
}

constexpr Kernels make_avx512_kernels() {
  Kernels kernels = make_kernels("avx512");
  kernels.transpose_bits = transpose_bits_in_registers;
  return kernels;
}

constexpr Kernels make_popcount_kernels() {
  Kernels kernels = make_avx512_kernels();
  kernels.agreements = agreements_popcount;
  kernels.bilinear_pool_rows = bilinear_pool_rows_popcount;
  kernels.few_rows = 128;
  return kernels;
}

}  // namespace

constexpr Kernels kAvx512 = make_avx512_kernels();
constexpr Kernels kAvx512Popcount = make_popcount_kernels();

}  // namespace bipointnet
