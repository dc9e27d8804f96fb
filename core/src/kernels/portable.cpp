// Portable kernels on 64-bit words, for every compiler and processor. 64 points per register.
#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 64;

struct Bits {
  static constexpr int kMostParts = 1;
  static constexpr bool kOneCopy = true;
  static constexpr bool kSplitsTrees = false;
  static constexpr bool kPairsTrees = true;
  std::uint64_t v;
  static Bits load(const std::uint64_t* p) { return {*p}; }
  static Bits zero() { return {0}; }
  void store(std::uint64_t* p) const { *p = v; }
  Bits operator&(Bits o) const { return {v & o.v}; }
  Bits operator^(Bits o) const { return {v ^ o.v}; }
  Bits complement() const { return {~v}; }
  bool any() const { return v != 0; }
  // *this becomes the sum bit of *this, x and y; returns the carry.
  Bits full_add(Bits x, Bits y) {
    const std::uint64_t half = v ^ x.v, carry = (v & x.v) | (half & y.v);
    v = half ^ y.v;
    return {carry};
  }
};

struct Floats {
  static constexpr int kWidth = 1, kPointRegs = 16, kRows = 4;
  static constexpr bool kHasFma = false;
  float v;
  static Floats load(const float* p) { return {*p}; }
  static Floats load_any(const float* p) { return {*p}; }
  static Floats from_bytes(const std::uint8_t* p) { return {static_cast<float>(*p)}; }
  static Floats broadcast(float x) { return {x}; }
  void store(float* p) const { *p = v; }
  void store_any(float* p) const { *p = v; }
  Floats mul(Floats o) const { return {v * o.v}; }
  Floats add(Floats o) const { return {v + o.v}; }
  Floats fma(Floats x, Floats y) const { return add(x.mul(y)); }
  static Floats max(Floats a, Floats b) { return {a.v > b.v ? a.v : b.v}; }
  static Floats min(Floats a, Floats b) { return {a.v < b.v ? a.v : b.v}; }
  unsigned ge_mask(Floats o) const { return v >= o.v; }
};

struct Doubles {
  static constexpr int kWidth = 1;
  double v;
  static Doubles load(const double* p) { return {*p}; }
  static Doubles broadcast(double x) { return {x}; }
  void store(double* p) const { *p = v; }
  Doubles add(Doubles o) const { return {v + o.v}; }
  Doubles sub(Doubles o) const { return {v - o.v}; }
  Doubles mul(Doubles o) const { return {v * o.v}; }
  Doubles fma(Doubles x, Doubles y) const { return add(x.mul(y)); }
  static Doubles max(Doubles a, Doubles b) { return {a.v > b.v ? a.v : b.v}; }
  static Doubles min(Doubles a, Doubles b) { return {a.v < b.v ? a.v : b.v}; }
  unsigned le_mask(Doubles o) const { return v <= o.v; }
  unsigned gt_mask(Doubles o) const { return v > o.v; }
  Doubles pow2() const {
    const std::uint64_t bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(v) + 1023) << 52;
    Doubles power;
    __builtin_memcpy(&power.v, &bits, sizeof bits);
    return power;
  }
};

struct Keys {
  static constexpr int kWidth = 1;
  std::int64_t v;
  static Keys load(const std::int64_t* p) { return {*p}; }
  static Keys broadcast(std::int64_t x) { return {x}; }
  void store(std::int64_t* p) const { *p = v; }
  Keys add_less(Keys a, Keys b) const { return {v + (a.v < b.v)}; }
  int count_below(Keys o) const { return v < o.v; }
};

struct Ints {
  static constexpr int kWidth = 1, kRows = 4;
  std::int32_t v;
  static Ints load(const std::int32_t* p) { return {*p}; }
  static Ints broadcast(std::int32_t x) { return {x}; }
  void store(std::int32_t* p) const { *p = v; }
  Ints add(Ints o) const { return {v + o.v}; }
  Ints sub(Ints o) const { return {v - o.v}; }
  Ints add_products(Ints a, Ints b) const {
    const auto low = [](Ints x) { return static_cast<std::int16_t>(x.v); };
    return {v + low(a) * low(b) + (a.v >> 16) * (b.v >> 16)};
  }
  unsigned le_mask(Ints o) const { return v <= o.v; }
};

// Without a popcount instruction: adds neighboring fields of doubling width. Compilers vectorize these steps.
inline int popcount(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  word += word >> 8;
  word += word >> 16;
  word += word >> 32;
  return static_cast<int>(word & 0x7f);
}

// Eight points at a time. Multiplying seven bits by 0x0002040810204081 adds copies shifted by 0, 7, ..., 42, which do
// not overlap: bit i of the copy shifted by 7 i is at position 8 i, the lowest bit of a byte. The eighth bit is moved
// alone.
inline void slices_to_bytes(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  for (int group = 0; group < 8; ++group) {
    std::uint64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t bits = slices[i] >> (8 * group) & 0xff;
      sum |= ((bits & 0x7f) * 0x0002040810204081 & 0x0101010101010101) << i | (bits & 0x80) << 49 << i;
    }
    for (int j = 0; j < 8; ++j) bytes[8 * group + j] = static_cast<std::uint8_t>(sum >> (8 * j));
  }
}

#include "kernels/groups_of_words.h"
#include "kernels/keys_portable.h"
#include "kernels/squares_portable.h"

#include "kernels/body.h"

}  // namespace

constexpr Kernels kPortable = make_kernels("portable");

}  // namespace bipointnet
