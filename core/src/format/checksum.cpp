#include "format/checksum.h"

#include <array>

namespace bipointnet {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320;  // 0x04C11DB7 with its bits reversed: the lowest bit comes first
constexpr std::size_t kSlices = 16;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// The CRC is linear: the remainder of 16 bytes is the sum of the remainders of each byte followed by zeros. Entry b of
// table i is the remainder of byte b followed by i zeros. So 16 lookups, which do not depend on each other, replace a
// chain of 16.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = rest;
  }
  for (std::size_t i = 1; i < kSlices; ++i) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[i - 1][byte];
      tables[i][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32(const std::uint8_t* bytes, std::size_t size) {
  std::uint32_t rest = 0xFFFFFFFF;
  for (; size >= kSlices; size -= kSlices, bytes += kSlices) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < kSlices; ++i) {
      const std::uint32_t mixed = i < 4 ? rest >> 8 * i : 0;
      next ^= kTables[kSlices - 1 - i][(bytes[i] ^ mixed) & 255];
    }
    rest = next;
  }
  for (; size > 0; --size, ++bytes) rest = rest >> 8 ^ kTables[0][(rest ^ *bytes) & 255];
  return ~rest;
}

}  // namespace bipointnet
