#include "clouds/scalars.h"

#include <cstdint>
#include <cstring>

namespace bipointnet::clouds {

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
