// delta(n) is the nearest double, and the same on every platform.
#include "engine/delta.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "check.h"
#include "engine/delta_values.h"

using namespace bipointnet;

namespace {

std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void check_exact_values() {
  for (const DeltaValue& row : kDeltaValues) {
    if (!CHECK_EQUAL(bits_of(delta(row.n)), bits_of(row.value))) std::cerr << "  n = " << row.n << "\n";
  }
}

// All doubles up to n = 16384 at once.
void check_hash() {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::uint64_t n = 1; n <= 16384; ++n) {
    for (std::uint64_t bits = bits_of(delta(n)), i = 0; i < 8; ++i, bits >>= 8) {
      hash = (hash ^ (bits & 0xff)) * 0x100000001b3;
    }
  }
  CHECK_EQUAL(hash, kDeltaHash);
}

void check_order() {
  CHECK(!std::signbit(delta(1)));
  bool ascending = true;
  for (std::uint64_t n = 1; n < 16384; ++n) ascending &= delta(n) < delta(n + 1);
  for (std::uint64_t n = 16384; n < (std::uint64_t{1} << 52); n += n / 3) ascending &= delta(n) < delta(n + n / 3);
  CHECK(ascending);
}

void check_refusals() {
  for (const std::uint64_t n : {std::uint64_t{0}, (std::uint64_t{1} << 53) + 1, ~std::uint64_t{0}}) {
    bool refused = false;
    try {
      delta(n);
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  check_exact_values();
  check_hash();
  check_order();
  check_refusals();
  return check_report();
}
