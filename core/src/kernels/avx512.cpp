// AVX-512 kernels: 512 points per register; a full adder is two VPTERNLOG.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 512;

struct Bits {
  __m512i v;
  static Bits load(const std::uint64_t* p) { return {_mm512_load_si512(p)}; }
  static Bits zero() { return {_mm512_setzero_si512()}; }
  void store(std::uint64_t* p) const { _mm512_store_si512(p, v); }
  Bits operator&(Bits o) const { return {_mm512_and_si512(v, o.v)}; }
  Bits operator^(Bits o) const { return {_mm512_xor_si512(v, o.v)}; }
  Bits complement() const { return {_mm512_ternarylogic_epi64(v, v, v, 0x55)}; }
  bool any() const { return _mm512_test_epi64_mask(v, v) != 0; }
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
  static Floats from_bytes(const std::uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
  void store(float* p) const { _mm512_store_ps(p, v); }
  Floats mul(Floats o) const { return {_mm512_mul_ps(v, o.v)}; }
  Floats add(Floats o) const { return {_mm512_add_ps(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return {_mm512_fmadd_ps(x.v, y.v, v)}; }
  static Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
  unsigned ge_mask(Floats o) const { return _mm512_cmp_ps_mask(v, o.v, _CMP_GE_OQ); }
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

}  // namespace

const Kernels kAvx512{"avx512",          kLanes,         dense_signs, dense,   mean_abs,   bilinear, bilinear_pool,
                      bilinear_and_pool, bilinear_float, update_max,  compare, agreements, affine,   dense_vector};
const Kernels kAvx512Popcount{"avx512",       kLanes,      dense_signs,   dense,
                              mean_abs,       bilinear,    bilinear_pool, bilinear_and_pool,
                              bilinear_float, update_max,  compare,       agreements_popcount,
                              affine,         dense_vector};

}  // namespace bipointnet
