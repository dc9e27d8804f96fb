#include "search/order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace bipointnet::search {
namespace {

constexpr int kDigitBits = 8, kDigits = 32 / kDigitBits;
constexpr std::size_t kRadix = 1 << kDigitBits;

// Sorts pairs of a code (the upper 32 bits) and an element by the code; equal codes keep their order. Radix sort, the
// lowest digit first; digits that are the same everywhere are skipped.
void sort_by_code(std::vector<std::uint64_t>& pairs) {
  std::vector<std::uint64_t> moved(pairs.size());
  std::vector<std::size_t> counts(kDigits * kRadix);
  const auto digit = [](std::uint64_t pair, int d) { return pair >> (32 + d * kDigitBits) & (kRadix - 1); };
  for (const std::uint64_t pair : pairs) {
    for (int d = 0; d < kDigits; ++d) ++counts[static_cast<std::size_t>(d) * kRadix + digit(pair, d)];
  }
  for (int d = 0; d < kDigits; ++d) {
    std::size_t* count = counts.data() + static_cast<std::size_t>(d) * kRadix;
    if (count[digit(pairs[0], d)] == pairs.size()) continue;
    std::size_t before = 0;
    for (std::size_t i = 0; i < kRadix; ++i) before += std::exchange(count[i], before);
    for (const std::uint64_t pair : pairs) moved[count[digit(pair, d)]++] = pair;
    pairs.swap(moved);
  }
}

std::vector<std::uint32_t> elements_of(const std::vector<std::uint64_t>& pairs) {
  std::vector<std::uint32_t> elements(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) elements[i] = static_cast<std::uint32_t>(pairs[i]);
  return elements;
}

// An integer that compares like the float; -0 becomes +0.
std::uint32_t sortable(float x) {
  x += 0.0f;
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Ten bits, two zeros after each.
std::uint32_t spread(std::uint32_t x) {
  x = (x | x << 16) & 0x030000ff;
  x = (x | x << 8) & 0x0300f00f;
  x = (x | x << 4) & 0x030c30c3;
  return (x | x << 2) & 0x09249249;
}

}  // namespace

std::vector<std::uint32_t> ranked(Rows ties, std::size_t count) {
  if (ties.numbers == nullptr) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  std::vector<std::uint64_t> pairs(count);
  for (std::size_t i = 0; i < count; ++i) pairs[i] = std::uint64_t{sortable(ties.numbers[i * ties.channels])} << 32 | i;
  sort_by_code(pairs);
  std::vector<std::uint32_t> order = elements_of(pairs);
  const auto before = [ties](std::uint32_t a, std::uint32_t b) {
    const float *x = ties.numbers + a * ties.channels, *y = ties.numbers + b * ties.channels;
    for (std::size_t c = 1; c < ties.channels; ++c) {
      if (x[c] != y[c]) return x[c] < y[c];
    }
    return a < b;
  };
  for (std::size_t start = 0, end; start < count; start = end) {
    for (end = start + 1; end < count && pairs[end] >> 32 == pairs[start] >> 32;) ++end;
    if (end - start > 1) {
      std::sort(order.begin() + static_cast<std::ptrdiff_t>(start), order.begin() + static_cast<std::ptrdiff_t>(end),
                before);
    }
  }
  return order;
}

std::vector<std::uint32_t> along_curve(const Aligned<double>& places, std::size_t channels, std::size_t stride,
                                       int bits) {
  constexpr std::uint32_t kMost = 1023;
  const double scale = std::ldexp(1.0, 10 - bits);
  const std::size_t count = places.size() / stride, used = std::min<std::size_t>(channels, 3);
  std::vector<std::uint64_t> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t code = 0;
    for (std::size_t c = 0; c < used; ++c) {
      code |= spread(std::min(kMost, static_cast<std::uint32_t>(places[i * stride + c] * scale))) << c;
    }
    pairs[i] = std::uint64_t{code} << 32 | i;
  }
  sort_by_code(pairs);
  return elements_of(pairs);
}

}  // namespace bipointnet::search
