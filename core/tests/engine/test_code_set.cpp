// The set of distinct codes, and the transposition that turns slices into codes.
#include "engine/code_set.h"

#include <cstdint>
#include <random>

#include "check.h"

using namespace bipointnet;

namespace {

void check_transpose() {
  std::mt19937_64 rng(1);
  std::uint64_t square[64], transposed[64];
  for (int i = 0; i < 64; ++i) square[i] = transposed[i] = rng();
  transpose(transposed);
  long wrong = 0;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) wrong += (square[i] >> j & 1) != (transposed[j] >> i & 1);
  }
  CHECK_EQUAL(wrong, 0);
}

// Codes are numbered in the order of their first appearance, also after reset().
void check_numbers() {
  CodeSet set;
  for (int round = 0; round < 2; ++round) {
    set.reset(1000);
    for (int i = 0; i < 1000; ++i) {
      const std::uint32_t number = set.insert(static_cast<std::uint64_t>(i % 300) << 40);
      CHECK_EQUAL(number, static_cast<std::uint32_t>(i % 300));
    }
    CHECK_EQUAL(set.codes().size(), std::size_t{300});
    for (std::size_t i = 0; i < 300; ++i) CHECK_EQUAL(set.codes()[i], std::uint64_t{i} << 40);
  }
}

}  // namespace

int main() {
  check_transpose();
  check_numbers();
  return check_report();
}
