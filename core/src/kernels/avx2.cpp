// AVX2 kernels: 256 points per register; a full adder is five instructions. Processors with AVX2 also have FMA.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 256;

struct Bits {
  static constexpr int kMostParts = 2;
  static constexpr bool kOneCopy = false;
  static constexpr bool kSplitsTrees = false;
  static constexpr bool kPairsTrees = true;
  __m256i v;
  static Bits load(const std::uint64_t* p) { return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p))}; }
  static Bits zero() { return {_mm256_setzero_si256()}; }
  void store(std::uint64_t* p) const { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
  Bits operator&(Bits o) const { return {_mm256_and_si256(v, o.v)}; }
  Bits operator^(Bits o) const { return {_mm256_xor_si256(v, o.v)}; }
  Bits complement() const {
    return *this ^ Bits { _mm256_set1_epi64x(-1) };
  }
  bool any() const { return !_mm256_testz_si256(v, v); }
  template <int kParts>
  static Bits load_parts(const char* const (&from)[kParts]) {
    const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(from[0]));
    const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(from[1]));
    return {_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)};
  }
  template <int kParts>
  void store_part(std::uint64_t* p) const {
    _mm_store_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(v));
  }
  template <int kParts>
  unsigned any_in_parts() const {
    const __m256i none = _mm256_cmpeq_epi64(v, _mm256_setzero_si256());
    const unsigned words = static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(none))) ^ 0xfu;
    return ((words | words >> 1) & 1) | ((words >> 1 | words >> 2) & 2);
  }
  // *this becomes the sum bit of *this, x and y; returns the carry.
  Bits full_add(Bits x, Bits y) {
    const Bits half = *this ^ x;
    const Bits carry{_mm256_or_si256((*this & x).v, (half & y).v)};
    *this = half ^ y;
    return carry;
  }
};

struct Floats {
  static constexpr int kWidth = 8, kPointRegs = 2, kRows = 6;
  static constexpr bool kHasFma = true;
  __m256 v;
  static Floats load(const float* p) { return {_mm256_load_ps(p)}; }
  static Floats load_any(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Floats from_bytes(const std::uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
  }
  static Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_store_ps(p, v); }
  void store_any(float* p) const { _mm256_storeu_ps(p, v); }
  Floats mul(Floats o) const { return {_mm256_mul_ps(v, o.v)}; }
  Floats add(Floats o) const { return {_mm256_add_ps(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return {_mm256_fmadd_ps(x.v, y.v, v)}; }
  static Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }
  unsigned ge_mask(Floats o) const {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(v, o.v, _CMP_GE_OQ)));
  }
};

struct Doubles {
  static constexpr int kWidth = 4;
  __m256d v;
  static Doubles load(const double* p) { return {_mm256_load_pd(p)}; }
  static Doubles broadcast(double x) { return {_mm256_set1_pd(x)}; }
  void store(double* p) const { _mm256_store_pd(p, v); }
  Doubles add(Doubles o) const { return {_mm256_add_pd(v, o.v)}; }
  Doubles sub(Doubles o) const { return {_mm256_sub_pd(v, o.v)}; }
  Doubles mul(Doubles o) const { return {_mm256_mul_pd(v, o.v)}; }
  Doubles fma(Doubles x, Doubles y) const { return {_mm256_fmadd_pd(x.v, y.v, v)}; }
  static Doubles max(Doubles a, Doubles b) { return {_mm256_max_pd(a.v, b.v)}; }
  static Doubles min(Doubles a, Doubles b) { return {_mm256_min_pd(a.v, b.v)}; }
  unsigned le_mask(Doubles o) const {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(v, o.v, _CMP_LE_OQ)));
  }
  unsigned gt_mask(Doubles o) const {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(v, o.v, _CMP_GT_OQ)));
  }
  // The low bits of v + 2^52 + 1023 are the exponent of 2^v.
  Doubles pow2() const {
    const __m256d exponent = _mm256_add_pd(v, _mm256_set1_pd(0x1p52 + 1023));
    return {_mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(exponent), 52))};
  }
};

struct Keys {
  static constexpr int kWidth = 4;
  __m256i v;
  static Keys load(const std::int64_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
  static Keys broadcast(std::int64_t x) { return {_mm256_set1_epi64x(x)}; }
  void store(std::int64_t* p) const { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
  Keys add_less(Keys a, Keys b) const {
    return {_mm256_sub_epi64(v, _mm256_cmpgt_epi64(b.v, a.v))};
  }
  int count_below(Keys o) const {
    return __builtin_popcount(
        static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(o.v, v)))));
  }
};

struct Ints {
  static constexpr int kWidth = 8, kRows = 4;
  __m256i v;
  static Ints load(const std::int32_t* p) { return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p))}; }
  static Ints broadcast(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
  void store(std::int32_t* p) const { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
  Ints add(Ints o) const { return {_mm256_add_epi32(v, o.v)}; }
  Ints sub(Ints o) const { return {_mm256_sub_epi32(v, o.v)}; }
  Ints add_products(Ints a, Ints b) const { return {_mm256_add_epi32(v, _mm256_madd_epi16(a.v, b.v))}; }
  unsigned le_mask(Ints o) const {
    return static_cast<unsigned>(~_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v, o.v)))) & 0xff;
  }
};

inline int popcount(std::uint64_t word) { return __builtin_popcountll(word); }

// Transposes the 8 x 8 bits in each of four words, by swapping squares of growing size.
inline __m256i transpose_bits(__m256i x) {
  const auto swap = [](__m256i v, int distance, long long mask) {
    const __m128i shift = _mm_cvtsi32_si128(distance);
    const __m256i moved = _mm256_and_si256(_mm256_xor_si256(v, _mm256_srl_epi64(v, shift)), _mm256_set1_epi64x(mask));
    return _mm256_xor_si256(v, _mm256_xor_si256(moved, _mm256_sll_epi64(moved, shift)));
  };
  return swap(swap(swap(x, 7, 0x00aa00aa00aa00aa), 14, 0x0000cccc0000cccc), 28, 0x00000000f0f0f0f0);
}

// Interleaves the bytes of eight slices: then each word has the bits of eight points, which are transposed.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  __m256i v[8], w[8];
  for (int i = 0; i < 8; ++i) v[i] = i < count ? Bits::load(slices + i * kLanes / 64).v : _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    w[i] = _mm256_unpacklo_epi8(v[2 * i], v[2 * i + 1]);
    w[4 + i] = _mm256_unpackhi_epi8(v[2 * i], v[2 * i + 1]);
  }
  for (int half = 0; half < 8; half += 4) {
    for (int i = 0; i < 2; ++i) {
      v[half + i] = _mm256_unpacklo_epi16(w[half + 2 * i], w[half + 2 * i + 1]);
      v[half + 2 + i] = _mm256_unpackhi_epi16(w[half + 2 * i], w[half + 2 * i + 1]);
    }
  }
  // Now v[2 i] and v[2 i + 1] have the lower and the upper four slices of four successive bytes in each half.
  for (int i = 0; i < 4; ++i) {
    const __m256i low = transpose_bits(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]));
    const __m256i high = transpose_bits(_mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    std::uint8_t* to = bytes + 32 * i;
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(low));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 16), _mm256_castsi256_si128(high));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 128), _mm256_extracti128_si256(low, 1));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 144), _mm256_extracti128_si256(high, 1));
  }
}

// All ones in the lanes of group g if bit `bit` of codes[g] is set, else zeros. A group is kField lanes.
template <int kField>
inline __attribute__((always_inline)) Bits spread_to(const std::uint32_t* codes, int bit) {
  const auto eight = [&](int first) {  // 0 or -1 in each of eight numbers
    const __m256i own = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + first));
    return _mm256_srai_epi32(_mm256_sll_epi32(own, _mm_cvtsi32_si128(31 - bit)), 31);
  };
  if constexpr (kField == 64) {
    const __m256i own = _mm256_cvtepu32_epi64(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
    return {_mm256_cmpgt_epi64(_mm256_setzero_si256(), _mm256_sll_epi64(own, _mm_cvtsi32_si128(63 - bit)))};
  } else if constexpr (kField == 32) {
    return {eight(0)};
  } else if constexpr (kField == 16) {
    return {_mm256_permute4x64_epi64(_mm256_packs_epi32(eight(0), eight(8)), 0xd8)};
  } else {
    const __m256i low = _mm256_packs_epi32(eight(0), eight(8)), high = _mm256_packs_epi32(eight(16), eight(24));
    return {_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))};
  }
}

// Bit g: whether some lane of group g is 1.
template <int kField>
inline __attribute__((always_inline)) std::uint64_t any_in_groups(Bits lanes) {
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (kField == 64) {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(lanes.v, zero)))) ^ 0xfu;
  } else if constexpr (kField == 32) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes.v, zero)))) ^ 0xffu;
  } else if constexpr (kField == 16) {
    const __m256i none = _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_cmpeq_epi16(lanes.v, zero), zero), 0xd8);
    return (static_cast<unsigned>(_mm256_movemask_epi8(none)) & 0xffffu) ^ 0xffffu;
  } else {
    return ~static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(lanes.v, zero)));
  }
}

// All ones in the lanes of each group without a 1.
template <int kField>
inline __attribute__((always_inline)) Bits none_in_groups(Bits lanes) {
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (kField == 64) return {_mm256_cmpeq_epi64(lanes.v, zero)};
  if constexpr (kField == 32) return {_mm256_cmpeq_epi32(lanes.v, zero)};
  if constexpr (kField == 16) return {_mm256_cmpeq_epi16(lanes.v, zero)};
  return {_mm256_cmpeq_epi8(lanes.v, zero)};
}

#include "kernels/keys_portable.h"
#include "kernels/squares_sse.h"

#include "kernels/body.h"

// Byte c of row r of 32 rows of 8 bytes becomes byte r of columns[c]. The low half of a register has rows 0 to 15, the
// high half rows 16 to 31.
inline __attribute__((always_inline)) void transpose_bytes(const std::uint64_t* rows, __m256i* columns) {
  const __m256i pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
  __m256i x[8], y[8];
  for (int i = 0; i < 8; ++i) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 2 * i));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + 16 + 2 * i));
    x[i] = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), pairs);
  }
  for (int i = 0; i < 4; ++i) {
    y[i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
    y[4 + i] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      x[i + j] = _mm256_unpacklo_epi32(y[i + 2 * j], y[i + 2 * j + 1]);
      x[i + 2 + j] = _mm256_unpackhi_epi32(y[i + 2 * j], y[i + 2 * j + 1]);
    }
  }
  for (int i = 0; i < 8; i += 2) {
    columns[i] = _mm256_unpacklo_epi64(x[i], x[i + 1]);
    columns[i + 1] = _mm256_unpackhi_epi64(x[i], x[i + 1]);
  }
}

// The highest bits of the bytes of a column are 32 bits of a row of the result; adding a column to itself shifts it.
void transpose_bits_by_masks(std::uint64_t* words) {
  __m256i columns[8];
  std::uint32_t low[64];
  transpose_bytes(words, columns);
  for (int c = 0; c < 8; ++c) {
    for (int bit = 7; bit >= 0; --bit) {
      low[8 * c + bit] = static_cast<std::uint32_t>(_mm256_movemask_epi8(columns[c]));
      columns[c] = _mm256_add_epi8(columns[c], columns[c]);
    }
  }
  transpose_bytes(words + 32, columns);
  for (int c = 0; c < 8; ++c) {
    for (int bit = 7; bit >= 0; --bit) {
      const auto high = static_cast<std::uint32_t>(_mm256_movemask_epi8(columns[c]));
      words[8 * c + bit] = low[8 * c + bit] | std::uint64_t{high} << 32;
      columns[c] = _mm256_add_epi8(columns[c], columns[c]);
    }
  }
}

constexpr Kernels make_avx2_kernels() {
  Kernels kernels = make_kernels("avx2");
  kernels.transpose_bits = transpose_bits_by_masks;
  return kernels;
}


}  // namespace

constexpr Kernels kAvx2 = make_avx2_kernels();

}  // namespace bipointnet
