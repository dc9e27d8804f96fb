// Numbers of binary files.
#pragma once

#include <cstddef>
#include <string_view>

namespace bipointnet::clouds {

enum class ScalarKind { signed_integer, unsigned_integer, real };

struct Scalar {
  std::size_t size;  // bytes: 1, 2, 4 or 8
  ScalarKind kind;   // real: 2, 4 or 8 bytes

  // Column::bits of a column of this type.
  unsigned bits() const { return kind == ScalarKind::unsigned_integer ? static_cast<unsigned>(8 * size) : 0; }
};

constexpr Scalar kFloat32 = {4, ScalarKind::real};
constexpr Scalar kFloat64 = {8, ScalarKind::real};

// The number in `type.size` bytes. Integers of 64 bits are rounded to the nearest double.
double value_of(const char* bytes, const Scalar& type, bool big_endian = false);

// `count` numbers, each `stride` bytes after the last.
void read_values(const char* bytes, std::size_t stride, std::size_t count, const Scalar& type, bool big_endian,
                 double* values);

}  // namespace bipointnet::clouds
