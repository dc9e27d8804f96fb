// NEON kernels for ARMv8.0: 128 points a register; a full adder is two exclusive-ors and one select.
#include <arm_neon.h>

#include "kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 128;

struct Bits {
  uint64x2_t v;
  static Bits load(const std::uint64_t* p) { return {vld1q_u64(p)}; }
  static Bits zero() { return {vdupq_n_u64(0)}; }
  void store(std::uint64_t* p) const { vst1q_u64(p, v); }
  Bits operator&(Bits o) const { return {vandq_u64(v, o.v)}; }
  Bits operator^(Bits o) const { return {veorq_u64(v, o.v)}; }
  Bits complement() const { return {vreinterpretq_u64_u8(vmvnq_u8(vreinterpretq_u8_u64(v)))}; }
  bool any() const { return vmaxvq_u32(vreinterpretq_u32_u64(v)) != 0; }
  // Becomes the sum bit of itself, x and y; returns the carry.
  Bits add(Bits x, Bits y) {
    const Bits half = *this ^ x;
    const Bits carry{vbslq_u64(half.v, y.v, x.v)};
    *this = half ^ y;
    return carry;
  }
};

struct Floats {
  static constexpr int kWidth = 4;
  float32x4_t v;
  static Floats load(const float* p) { return {vld1q_f32(p)}; }
  static Floats all(float x) { return {vdupq_n_f32(x)}; }
  Floats mul(Floats o) const { return {vmulq_f32(v, o.v)}; }
  Floats plus(Floats o) const { return {vaddq_f32(v, o.v)}; }
  unsigned at_least(Floats o) const {
    const std::uint32_t places[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32(v, o.v), vld1q_u32(places)));
  }
};

inline int ones(std::uint64_t word) { return __builtin_popcountll(word); }

#include "kernels_body.h"

}  // namespace

const Kernels kNeon{"neon", kLanes, signs, dense, carries, layer, pool, compare, raise, agreements, line, vector};

}  // namespace bipointnet
