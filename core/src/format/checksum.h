// The checksum of packed models: CRC-32 as in zlib, PNG and Ethernet. It detects every flipped bit, and every change
// that is at most 32 bits long.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bipointnet {

std::uint32_t crc32(const std::uint8_t* bytes, std::size_t size);

}  // namespace bipointnet
