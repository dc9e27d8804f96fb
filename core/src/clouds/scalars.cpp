#include "clouds/scalars.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace bipointnet::clouds {
namespace {

// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
struct Half {
  std::uint16_t word;

  explicit operator double() const {
    const int exponent = word >> 10 & 31, fraction = word & 1023;
    double number = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
      number = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    }
    return word >> 15 & 1 ? -number : number;
  }
};

// The number in the bytes of a type that the compiler knows: one load instruction, and one swap of bytes.
template <class Type, class Word, bool big_endian>
double number_at(const char* bytes) {
  static_assert(sizeof(Type) == sizeof(Word), "the bits of the number");
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) {
    const std::size_t place = big_endian ? sizeof(Word) - 1 - i : i;
    const Word byte = static_cast<unsigned char>(bytes[i]);
    word = static_cast<Word>(word | static_cast<Word>(byte << 8 * place));
  }
  Type number;
  std::memcpy(&number, &word, sizeof number);
  return static_cast<double>(number);
}

template <class Type, class Word, bool big_endian>
void fill(const char* bytes, std::size_t stride, std::size_t count, double* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = number_at<Type, Word, big_endian>(bytes + i * stride);
}

using Fill = void (*)(const char*, std::size_t, std::size_t, double*);

template <bool big_endian>
Fill fill_of(const Scalar& type) {
  if (type.kind == ScalarKind::real) {
    switch (type.size) {
      case 2: return fill<Half, std::uint16_t, big_endian>;
      case 4: return fill<float, std::uint32_t, big_endian>;
      default: return fill<double, std::uint64_t, big_endian>;
    }
  }
  if (type.kind == ScalarKind::signed_integer) {
    switch (type.size) {
      case 1: return fill<std::int8_t, std::uint8_t, big_endian>;
      case 2: return fill<std::int16_t, std::uint16_t, big_endian>;
      case 4: return fill<std::int32_t, std::uint32_t, big_endian>;
      default: return fill<std::int64_t, std::uint64_t, big_endian>;
    }
  }
  switch (type.size) {
    case 1: return fill<std::uint8_t, std::uint8_t, big_endian>;
    case 2: return fill<std::uint16_t, std::uint16_t, big_endian>;
    case 4: return fill<std::uint32_t, std::uint32_t, big_endian>;
    default: return fill<std::uint64_t, std::uint64_t, big_endian>;
  }
}

}  // namespace

void read_values(const char* bytes, std::size_t stride, std::size_t count, const Scalar& type, bool big_endian,
                 double* values) {
  (big_endian ? fill_of<true> : fill_of<false>)(type)(bytes, stride, count, values);
}

double value_of(const char* bytes, const Scalar& type, bool big_endian) {
  double value = 0;
  read_values(bytes, 0, 1, type, big_endian, &value);
  return value;
}

}  // namespace bipointnet::clouds
