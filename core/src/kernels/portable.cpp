// Portable kernels: the same design on 64-bit words, for every compiler and processor.
#include "kernels/kernels.h"

namespace bipointnet {
namespace {

constexpr int kLanes = 64;

struct Bits {
  std::uint64_t v;
  static Bits load(const std::uint64_t* p) { return {*p}; }
  static Bits zero() { return {0}; }
  void store(std::uint64_t* p) const { *p = v; }
  Bits operator&(Bits o) const { return {v & o.v}; }
  Bits operator^(Bits o) const { return {v ^ o.v}; }
  Bits complement() const { return {~v}; }
  bool any() const { return v != 0; }
  // Becomes the sum bit of itself, x and y; returns the carry.
  Bits add(Bits x, Bits y) {
    const std::uint64_t half = v ^ x.v, carry = (v & x.v) | (half & y.v);
    v = half ^ y.v;
    return {carry};
  }
};

struct Floats {
  static constexpr int kWidth = 1, kTogether = 16, kRows = 4;
  static constexpr bool kFuses = false;
  float v;
  static Floats load(const float* p) { return {*p}; }
  static Floats of_bytes(const std::uint8_t* p) { return {static_cast<float>(*p)}; }
  static Floats all(float x) { return {x}; }
  void store(float* p) const { *p = v; }
  Floats mul(Floats o) const { return {v * o.v}; }
  Floats plus(Floats o) const { return {v + o.v}; }
  Floats fused(Floats x, Floats y) const { return plus(x.mul(y)); }
  static Floats larger(Floats a, Floats b) { return {a.v > b.v ? a.v : b.v}; }
  static Floats smaller(Floats a, Floats b) { return {a.v < b.v ? a.v : b.v}; }
  unsigned at_least(Floats o) const { return v >= o.v; }
};

// Without an instruction for it: sums of ever wider fields, in steps that compilers do for several words at once.
inline int ones(std::uint64_t word) {
  word -= word >> 1 & 0x5555555555555555;
  word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
  word += word >> 8;
  word += word >> 16;
  word += word >> 32;
  return static_cast<int>(word & 0x7f);
}

// Eight points at a time. Multiplying seven bits by 0x0002040810204081 adds copies that are shifted by 0, 7, ..., 42 and
// do not meet: bit i of the copy that is shifted by 7 i is at 8 i, the lowest place of a byte. The eighth bit goes alone.
inline void spread(const std::uint64_t* slices, int count, std::uint8_t* bytes) {
  for (int group = 0; group < 8; ++group) {
    std::uint64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t bits = slices[i] >> (8 * group) & 0xff;
      sum |= ((bits & 0x7f) * 0x0002040810204081 & 0x0101010101010101) << i | (bits & 0x80) << 49 << i;
    }
    for (int j = 0; j < 8; ++j) bytes[8 * group + j] = static_cast<std::uint8_t>(sum >> (8 * j));
  }
}

#include "kernels/body.h"

}  // namespace

const Kernels kPortable{"portable",     kLanes, signs, dense,   scales,     layer, pool,
                        layer_and_pool, lines,  raise, compare, agreements, line,  vector};

}  // namespace bipointnet
