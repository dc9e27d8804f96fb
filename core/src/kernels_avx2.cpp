// AVX2 kernels: 256 points a register; a full adder is five operations.
#include <immintrin.h>

#include "kernels.h"

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
  Bits complement() const { return *this ^ Bits{_mm256_set1_epi64x(-1)}; }
  bool any() const { return !_mm256_testz_si256(v, v); }
  // Becomes the sum bit of itself, x and y; returns the carry.
  Bits add(Bits x, Bits y) {
    const Bits half = *this ^ x;
    const Bits carry{_mm256_or_si256((*this & x).v, (half & y).v)};
    *this = half ^ y;
    return carry;
  }
};

struct Floats {
  static constexpr int kWidth = 8;
  __m256 v;
  static Floats load(const float* p) { return {_mm256_load_ps(p)}; }
  static Floats all(float x) { return {_mm256_set1_ps(x)}; }
  Floats mul(Floats o) const { return {_mm256_mul_ps(v, o.v)}; }
  Floats plus(Floats o) const { return {_mm256_add_ps(v, o.v)}; }
  unsigned at_least(Floats o) const {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(v, o.v, _CMP_GE_OQ)));
  }
};

inline int ones(std::uint64_t word) { return __builtin_popcountll(word); }

#include "kernels_body.h"

}  // namespace

const Kernels kAvx2{"avx2", kLanes, signs, dense, carries, layer, pool, compare, raise, agreements, line, vector};

}  // namespace bipointnet
