// AVX-512 kernels: 512 points a register; a full adder is two VPTERNLOG.
#include <immintrin.h>

#include "kernels.h"

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
  // Becomes the sum bit of itself, x and y; returns the carry. VPTERNLOG overwrites its first operand, so the carry is
  // worked out from the new sum: it is x where x = y, else the old bit, which is the complement of the new one. So no
  // register needs to be copied.
  Bits add(Bits x, Bits y) {
    v = _mm512_ternarylogic_epi64(v, x.v, y.v, 0x96);         // v ^ x ^ y
    return {_mm512_ternarylogic_epi64(x.v, v, y.v, 0xb2)};    // x == y ? x : ~v
  }
};

struct Floats {
  static constexpr int kWidth = 16;
  __m512 v;
  static Floats load(const float* p) { return {_mm512_load_ps(p)}; }
  static Floats all(float x) { return {_mm512_set1_ps(x)}; }
  Floats mul(Floats o) const { return {_mm512_mul_ps(v, o.v)}; }
  Floats plus(Floats o) const { return {_mm512_add_ps(v, o.v)}; }
  unsigned at_least(Floats o) const { return _mm512_cmp_ps_mask(v, o.v, _CMP_GE_OQ); }
};

#include "kernels_body.h"

}  // namespace

const Kernels kAvx512{"avx512", kLanes, signs, dense, carries, layer, pool, agreements, vector};

}  // namespace bipointnet
