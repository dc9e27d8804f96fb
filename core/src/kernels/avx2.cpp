// AVX2 kernels: 256 points per register; a full adder is five instructions. Processors with AVX2 also have FMA.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 256;

struct Bits {
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
  static Floats from_bytes(const std::uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
  }
  static Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
  void store(float* p) const { _mm256_store_ps(p, v); }
  Floats mul(Floats o) const { return {_mm256_mul_ps(v, o.v)}; }
  Floats add(Floats o) const { return {_mm256_add_ps(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return {_mm256_fmadd_ps(x.v, y.v, v)}; }
  static Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }
  unsigned ge_mask(Floats o) const {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(v, o.v, _CMP_GE_OQ)));
  }
};

inline int popcount(std::uint64_t word) { return __builtin_popcountll(word); }

// 32 points at a time: each of four bytes is copied to the eight points whose bits it holds; then each point tests its
// bit.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  const __m256i copies = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,  //
                                          2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i own = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  for (int group = 0; group < kLanes / 32; ++group) {
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < count; ++i) {
      const auto bits = static_cast<int>(slices[i * kLanes / 64 + group / 2] >> (group % 2 * 32));
      const __m256i tested = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), copies), own);
      const __m256i place = _mm256_set1_epi8(static_cast<char>(1 << i));
      sum = _mm256_or_si256(sum, _mm256_and_si256(_mm256_cmpeq_epi8(tested, own), place));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes + 32 * group), sum);
  }
}

#include "kernels/body.h"

}  // namespace

const Kernels kAvx2{
    "avx2",         kLanes,     dense_signs, dense,      mean_abs, bilinear,    bilinear_pool, bilinear_and_pool,
    bilinear_float, update_max, compare,     agreements, affine,   dense_vector};

}  // namespace bipointnet
