// NEON kernels for ARMv8.0: 128 points per register; a full adder is two exclusive-ors and one select.
#include <arm_neon.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 128;

struct Bits {
  static constexpr int kMostParts = 1;
  static constexpr bool kOneCopy = false;
  static constexpr bool kSplitsTrees = true;
  static constexpr bool kPairsTrees = true;
  uint64x2_t v;
  static Bits load(const std::uint64_t* p) { return {vld1q_u64(p)}; }
  static Bits zero() { return {vdupq_n_u64(0)}; }
  void store(std::uint64_t* p) const { vst1q_u64(p, v); }
  Bits operator&(Bits o) const { return {vandq_u64(v, o.v)}; }
  Bits operator^(Bits o) const { return {veorq_u64(v, o.v)}; }
  Bits complement() const { return {vreinterpretq_u64_u8(vmvnq_u8(vreinterpretq_u8_u64(v)))}; }
  bool any() const { return vmaxvq_u32(vreinterpretq_u32_u64(v)) != 0; }
  // *this becomes the sum bit of *this, x and y; returns the carry.
  Bits full_add(Bits x, Bits y) {
    const Bits half = *this ^ x;
    const Bits carry{vbslq_u64(half.v, y.v, x.v)};
    *this = half ^ y;
    return carry;
  }
};

struct Floats {
  static constexpr int kWidth = 4, kPointRegs = 4, kRows = 4;
  static constexpr bool kHasFma = true;
  float32x4_t v;
  static Floats load(const float* p) { return {vld1q_f32(p)}; }
  static Floats load_any(const float* p) { return {vld1q_f32(p)}; }
  static Floats from_bytes(const std::uint8_t* p) {
    const std::uint32_t numbers[4] = {p[0], p[1], p[2], p[3]};
    return {vcvtq_f32_u32(vld1q_u32(numbers))};
  }
  static Floats broadcast(float x) { return {vdupq_n_f32(x)}; }
  void store(float* p) const { vst1q_f32(p, v); }
  void store_any(float* p) const { vst1q_f32(p, v); }
  Floats mul(Floats o) const { return {vmulq_f32(v, o.v)}; }
  Floats add(Floats o) const { return {vaddq_f32(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return {vfmaq_f32(v, x.v, y.v)}; }
  static Floats max(Floats a, Floats b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
  unsigned ge_mask(Floats o) const {
    const std::uint32_t places[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32(v, o.v), vld1q_u32(places)));
  }
};

struct Doubles {
  static constexpr int kWidth = 2;
  float64x2_t v;
  static Doubles load(const double* p) { return {vld1q_f64(p)}; }
  static Doubles broadcast(double x) { return {vdupq_n_f64(x)}; }
  void store(double* p) const { vst1q_f64(p, v); }
  Doubles add(Doubles o) const { return {vaddq_f64(v, o.v)}; }
  Doubles sub(Doubles o) const { return {vsubq_f64(v, o.v)}; }
  Doubles mul(Doubles o) const { return {vmulq_f64(v, o.v)}; }
  Doubles fma(Doubles x, Doubles y) const { return {vfmaq_f64(v, x.v, y.v)}; }
  static Doubles max(Doubles a, Doubles b) { return {vmaxq_f64(a.v, b.v)}; }
  static Doubles min(Doubles a, Doubles b) { return {vminq_f64(a.v, b.v)}; }
  static unsigned mask_of(uint64x2_t lanes) {
    return static_cast<unsigned>((vgetq_lane_u64(lanes, 0) & 1) | (vgetq_lane_u64(lanes, 1) & 2));
  }
  unsigned le_mask(Doubles o) const { return mask_of(vcleq_f64(v, o.v)); }
  unsigned gt_mask(Doubles o) const { return mask_of(vcgtq_f64(v, o.v)); }
  // The low bits of v + 2^52 + 1023 are the exponent of 2^v.
  Doubles pow2() const {
    const float64x2_t exponent = vaddq_f64(v, vdupq_n_f64(0x1p52 + 1023));
    return {vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(exponent), 52))};
  }
};

struct Keys {
  static constexpr int kWidth = 2;
  int64x2_t v;
  static Keys load(const std::int64_t* p) { return {vld1q_s64(p)}; }
  static Keys broadcast(std::int64_t x) { return {vdupq_n_s64(x)}; }
  void store(std::int64_t* p) const { vst1q_s64(p, v); }
  Keys add_less(Keys a, Keys b) const { return {vsubq_s64(v, vreinterpretq_s64_u64(vcltq_s64(a.v, b.v)))}; }
  int count_below(Keys o) const { return static_cast<int>(-vaddvq_s64(vreinterpretq_s64_u64(vcltq_s64(v, o.v)))); }
};

struct Ints {
  static constexpr int kWidth = 4, kRows = 4;
  int32x4_t v;
  static Ints load(const std::int32_t* p) { return {vld1q_s32(p)}; }
  static Ints broadcast(std::int32_t x) { return {vdupq_n_s32(x)}; }
  void store(std::int32_t* p) const { vst1q_s32(p, v); }
  Ints add(Ints o) const { return {vaddq_s32(v, o.v)}; }
  Ints sub(Ints o) const { return {vsubq_s32(v, o.v)}; }
  Ints add_products(Ints a, Ints b) const {
    const int16x8_t x = vreinterpretq_s16_s32(a.v), y = vreinterpretq_s16_s32(b.v);
    const int32x4_t first = vmull_s16(vget_low_s16(x), vget_low_s16(y)), second = vmull_high_s16(x, y);
    return {vaddq_s32(v, vpaddq_s32(first, second))};
  }
  unsigned le_mask(Ints o) const {
    const std::uint32_t places[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcleq_s32(v, o.v), vld1q_u32(places)));
  }
};

inline int popcount(std::uint64_t word) { return __builtin_popcountll(word); }

// 16 points at a time: each of two bytes is copied to the eight points whose bits it holds; then each point tests its
// bit.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  const uint8x16_t own = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  for (int group = 0; group < kLanes / 16; ++group) {
    uint8x16_t sum = vdupq_n_u8(0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t bits = slices[i * kLanes / 64 + group / 4] >> (group % 4 * 16);
      const uint8x16_t copies =
          vcombine_u8(vdup_n_u8(static_cast<std::uint8_t>(bits)), vdup_n_u8(static_cast<std::uint8_t>(bits >> 8)));
      const uint8x16_t place = vdupq_n_u8(static_cast<std::uint8_t>(1 << i));
      sum = vorrq_u8(sum, vandq_u8(vtstq_u8(copies, own), place));
    }
    vst1q_u8(bytes + 16 * group, sum);
  }
}

#include "kernels/groups_of_words.h"
#include "kernels/keys_portable.h"
#include "kernels/squares_portable.h"

#include "kernels/body.h"

}  // namespace

constexpr Kernels kNeon = make_kernels("neon");

}  // namespace bipointnet
