// Portable kernels: the same design on 64-bit words, for every compiler and processor.
#include "kernels.h"

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
  static constexpr int kWidth = 1;
  float v;
  static Floats load(const float* p) { return {*p}; }
  static Floats all(float x) { return {x}; }
  Floats mul(Floats o) const { return {v * o.v}; }
  Floats plus(Floats o) const { return {v + o.v}; }
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

#include "kernels_body.h"

}  // namespace

const Kernels kPortable{"portable", kLanes, signs, dense, carries, layer, pool, compare, raise, agreements, line, vector};

}  // namespace bipointnet
