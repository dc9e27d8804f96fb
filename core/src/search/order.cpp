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
  const auto digit = [](std::uint64_t pair, int d) {
    return static_cast<std::size_t>(pair >> (32 + d * kDigitBits)) & (kRadix - 1);
  };
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

void elements_of(const std::vector<std::uint64_t>& pairs, std::vector<std::uint32_t>& elements) {
  for (std::size_t i = 0; i < pairs.size(); ++i) elements[i] = static_cast<std::uint32_t>(pairs[i]);
}

// An integer that compares like the float; -0 becomes +0.
std::uint32_t sortable(float x) {
  x += 0.0f;
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// An element with the codes of two of its channels.
struct Coded {
  std::uint64_t code;
  std::uint32_t element;
  bool operator<(const Coded& other) const {
    return code != other.code ? code < other.code : element < other.element;
  }
};

// Calls work(start, end) for every run of two or more equal codes.
template <class Code, class Work>
void for_runs(std::size_t count, const Code& code, const Work& work) {
  for (std::size_t start = 0, end; start < count; start = end) {
    for (end = start + 1; end < count && code(end) == code(start);) ++end;
    if (end - start > 1) work(start, end);
  }
}

// Sorts elements that are equal in their first channel by the others, then by their indices. The codes of two channels,
// side by side, decide between nearly all of them.
void sort_run(Rows ties, std::uint32_t* elements, std::size_t count, std::vector<Coded>& run) {
  const auto row = [ties](std::uint32_t element) { return ties.numbers + element * ties.channels; };
  run.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t high = ties.channels > 1 ? sortable(row(elements[i])[1]) : 0;
    run[i] = {high << 32 | (ties.channels > 2 ? sortable(row(elements[i])[2]) : 0), elements[i]};
  }
  std::sort(run.begin(), run.end());
  for (std::size_t i = 0; i < count; ++i) elements[i] = run[i].element;
  if (ties.channels <= 3) return;
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    for (std::size_t c = 3; c < ties.channels; ++c) {
      if (row(a)[c] != row(b)[c]) return row(a)[c] < row(b)[c];
    }
    return a < b;
  };
  for_runs(count, [&](std::size_t i) { return run[i].code; },
           [&](std::size_t start, std::size_t end) { std::sort(elements + start, elements + end, before); });
}

// For every number of ten bits its bits with two zeros after each.
struct Spread {
  std::uint32_t of[1024];
  constexpr Spread() : of() {
    for (std::uint32_t i = 0; i < 1024; ++i) {
      for (int bit = 0; bit < 10; ++bit) of[i] |= (i >> bit & 1) << (3 * bit);
    }
  }
};
constexpr Spread kSpread;

}  // namespace

std::vector<std::uint32_t> ranked(Rows ties, std::size_t count) {
  if (ties.numbers == nullptr) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  std::vector<std::uint32_t> order(count);
  std::vector<std::uint64_t> pairs(count);
  for (std::size_t i = 0; i < count; ++i) pairs[i] = std::uint64_t{sortable(ties.numbers[i * ties.channels])} << 32 | i;
  sort_by_code(pairs);
  elements_of(pairs, order);
  std::vector<Coded> run;
  for_runs(count, [&](std::size_t i) { return pairs[i] >> 32; },
           [&](std::size_t start, std::size_t end) { sort_run(ties, order.data() + start, end - start, run); });
  return order;
}

std::vector<std::uint32_t> along_curve(const Aligned<double>& places, std::size_t channels, std::size_t stride,
                                       int bits) {
  const std::size_t count = places.size() / stride, used = std::min<std::size_t>(channels, 3);
  const int fine = count <= 1 << 10 ? 5 : count <= 1 << 16 ? 8 : 10;  // bits per channel: two, three or four digits
  const std::int32_t most = (1 << fine) - 1;
  const double scale = std::ldexp(1.0, fine - bits);
  std::vector<std::uint32_t> order(count);  // before the pairs: no hole of the heap stays in front of it
  std::vector<std::uint64_t> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t code = 0;
    for (std::size_t c = 0; c < used; ++c) {
      const auto cell = static_cast<std::int32_t>(places[i * stride + c] * scale);
      code |= kSpread.of[std::min(most, cell)] << c;
    }
    pairs[i] = std::uint64_t{code} << 32 | i;
  }
  sort_by_code(pairs);
  elements_of(pairs, order);
  return order;
}

}  // namespace bipointnet::search
