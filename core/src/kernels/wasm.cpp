// WebAssembly kernels: 128 points per register; a full adder is two exclusive-ors and one select. There is no fused
// multiply-add. The intrinsics of SSE2 in squares_sse.h are compiled to WebAssembly, too.
#include <emmintrin.h>
#include <wasm_simd128.h>

#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 128;

struct Bits {
  static constexpr int kMostParts = 1;
  static constexpr bool kOneCopy = false;
  static constexpr bool kSplitsTrees = false;
  static constexpr bool kPairsTrees = false;
  v128_t v;
  static Bits load(const std::uint64_t* p) { return {wasm_v128_load(p)}; }
  static Bits zero() { return {wasm_i64x2_const(0, 0)}; }
  void store(std::uint64_t* p) const { wasm_v128_store(p, v); }
  Bits operator&(Bits o) const { return {wasm_v128_and(v, o.v)}; }
  Bits operator^(Bits o) const { return {wasm_v128_xor(v, o.v)}; }
  Bits complement() const { return {wasm_v128_not(v)}; }
  bool any() const { return wasm_v128_any_true(v); }
  // *this becomes the sum bit of *this, x and y; returns the carry.
  Bits full_add(Bits x, Bits y) {
    const Bits half = *this ^ x;
    const Bits carry{wasm_v128_bitselect(y.v, x.v, half.v)};
    *this = half ^ y;
    return carry;
  }
};

struct Floats {
  static constexpr int kWidth = 4, kPointRegs = 4, kRows = 2;
  static constexpr bool kHasFma = false;
  v128_t v;
  static Floats load(const float* p) { return {wasm_v128_load(p)}; }
  static Floats load_any(const float* p) { return load(p); }
  static Floats from_bytes(const std::uint8_t* p) {
    const v128_t words = wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p));
    return {wasm_f32x4_convert_u32x4(wasm_u32x4_extend_low_u16x8(words))};
  }
  static Floats broadcast(float x) { return {wasm_f32x4_splat(x)}; }
  void store(float* p) const { wasm_v128_store(p, v); }
  void store_any(float* p) const { store(p); }
  Floats mul(Floats o) const { return {wasm_f32x4_mul(v, o.v)}; }
  Floats add(Floats o) const { return {wasm_f32x4_add(v, o.v)}; }
  Floats fma(Floats x, Floats y) const { return add(x.mul(y)); }
  static Floats max(Floats a, Floats b) { return {wasm_f32x4_pmax(b.v, a.v)}; }
  static Floats min(Floats a, Floats b) { return {wasm_f32x4_pmin(b.v, a.v)}; }
  unsigned ge_mask(Floats o) const { return wasm_i32x4_bitmask(wasm_f32x4_ge(v, o.v)); }
};

struct Doubles {
  static constexpr int kWidth = 2;
  v128_t v;
  static Doubles load(const double* p) { return {wasm_v128_load(p)}; }
  static Doubles broadcast(double x) { return {wasm_f64x2_splat(x)}; }
  void store(double* p) const { wasm_v128_store(p, v); }
  Doubles add(Doubles o) const { return {wasm_f64x2_add(v, o.v)}; }
  Doubles sub(Doubles o) const { return {wasm_f64x2_sub(v, o.v)}; }
  Doubles mul(Doubles o) const { return {wasm_f64x2_mul(v, o.v)}; }
  Doubles fma(Doubles x, Doubles y) const { return add(x.mul(y)); }
  static Doubles max(Doubles a, Doubles b) { return {wasm_f64x2_pmax(b.v, a.v)}; }
  static Doubles min(Doubles a, Doubles b) { return {wasm_f64x2_pmin(b.v, a.v)}; }
  unsigned le_mask(Doubles o) const { return wasm_i64x2_bitmask(wasm_f64x2_le(v, o.v)); }
  unsigned gt_mask(Doubles o) const { return wasm_i64x2_bitmask(wasm_f64x2_gt(v, o.v)); }
  // The low bits of v + 2^52 + 1023 are the exponent of 2^v.
  Doubles pow2() const { return {wasm_i64x2_shl(wasm_f64x2_add(v, wasm_f64x2_splat(0x1p52 + 1023)), 52)}; }
};

struct Keys {
  static constexpr int kWidth = 2;
  v128_t v;
  static Keys load(const std::int64_t* p) { return {wasm_v128_load(p)}; }
  static Keys broadcast(std::int64_t x) { return {wasm_i64x2_splat(x)}; }
  void store(std::int64_t* p) const { wasm_v128_store(p, v); }
  Keys add_less(Keys a, Keys b) const { return {wasm_i64x2_sub(v, wasm_i64x2_lt(a.v, b.v))}; }
  int count_below(Keys o) const {
    return __builtin_popcount(static_cast<unsigned>(wasm_i64x2_bitmask(wasm_i64x2_lt(v, o.v))));
  }
};

struct Ints {
  static constexpr int kWidth = 4, kRows = 4;
  v128_t v;
  static Ints load(const std::int32_t* p) { return {wasm_v128_load(p)}; }
  static Ints broadcast(std::int32_t x) { return {wasm_i32x4_splat(x)}; }
  void store(std::int32_t* p) const { wasm_v128_store(p, v); }
  Ints add(Ints o) const { return {wasm_i32x4_add(v, o.v)}; }
  Ints sub(Ints o) const { return {wasm_i32x4_sub(v, o.v)}; }
  Ints add_products(Ints a, Ints b) const { return {wasm_i32x4_add(v, wasm_i32x4_dot_i16x8(a.v, b.v))}; }
  unsigned le_mask(Ints o) const { return wasm_i32x4_bitmask(wasm_i32x4_le(v, o.v)); }
};

inline int popcount(std::uint64_t word) { return __builtin_popcountll(word); }

// 16 points at a time: each of two bytes is copied to the eight points whose bits it holds; then each point tests its
// bit.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  const v128_t own = wasm_i64x2_splat(static_cast<std::int64_t>(0x8040201008040201));
  for (int group = 0; group < kLanes / 16; ++group) {
    v128_t sum = wasm_i64x2_const(0, 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t bits = slices[i * kLanes / 64 + group / 4] >> (group % 4 * 16);
      constexpr std::uint64_t kCopies = 0x0101010101010101;
      const v128_t copies = wasm_i64x2_make(static_cast<std::int64_t>((bits & 0xff) * kCopies),
                                            static_cast<std::int64_t>((bits >> 8 & 0xff) * kCopies));
      const v128_t set = wasm_i8x16_eq(wasm_v128_and(copies, own), own);
      sum = wasm_v128_or(sum, wasm_v128_and(set, wasm_i8x16_splat(static_cast<std::int8_t>(1 << i))));
    }
    wasm_v128_store(bytes + 16 * group, sum);
  }
}

#include "kernels/groups_of_words.h"
#include "kernels/keys_portable.h"
#include "kernels/squares_sse.h"

#include "kernels/body.h"

}  // namespace

constexpr Kernels kWasm = make_kernels("wasm");

}  // namespace bipointnet
