#include "clouds/scalars.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace bipointnet::clouds {
namespace {

// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
double half_of(unsigned word) {
  const int exponent = static_cast<int>(word >> 10 & 31);
  const int fraction = static_cast<int>(word & 1023);
  double number = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) {
    number = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  return word >> 15 & 1 ? -number : number;
}

}  // namespace

double value_of(const char* bytes, const Scalar& type, bool big_endian) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < type.size; ++i) {
    const std::size_t place = big_endian ? type.size - 1 - i : i;
    word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * place;
  }
  if (type.kind == ScalarKind::unsigned_integer) return static_cast<double>(word);
  if (type.kind == ScalarKind::signed_integer) {
    const std::size_t spare = 64 - 8 * type.size;
    return static_cast<double>(static_cast<std::int64_t>(word << spare) >> spare);
  }
  if (type.size == 2) return half_of(static_cast<unsigned>(word));
  if (type.size == 4) {
    const auto low = static_cast<std::uint32_t>(word);
    float number = 0;
    std::memcpy(&number, &low, sizeof number);
    return double{number};
  }
  double number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

}  // namespace bipointnet::clouds
