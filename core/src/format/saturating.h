// Products and sums of sizes that stop at the largest number instead of wrapping around.
#pragma once

#include <cstdint>
#include <limits>

namespace bipointnet {

constexpr std::uint64_t kSaturated = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kSaturated / b ? kSaturated : a * b;
}

constexpr std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return a > kSaturated - b ? kSaturated : a + b;
}

}  // namespace bipointnet
