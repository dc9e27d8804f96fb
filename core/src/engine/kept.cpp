#include "engine/kept.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace bipointnet {
namespace {

constexpr std::size_t kAhead = 32;  // points whose slots are fetched while others are compared
constexpr std::uint64_t kHighest = std::numeric_limits<std::uint64_t>::max();

// The bits of a number, where -0 has those of +0.
std::uint64_t bits_of(float number) {
  const float positive = number + 0.0f;
  std::uint32_t bits;
  std::memcpy(&bits, &positive, sizeof bits);
  return bits;
}

std::uint64_t hash_of(const float* numbers, std::size_t channels, std::uint64_t hash) {
  for (std::size_t c = 0; c < channels; ++c) {
    hash = (hash ^ bits_of(numbers[c])) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

std::uint64_t rank_of(const float* numbers, std::size_t channels) { return hash_of(numbers, channels, 0); }

// A hash table of points with open addressing: 0 is empty, else the number of a point plus 1. It is at most a quarter
// full, so that most points find their slot empty: a branch that is rarely mispredicted.
//
// The hash of a rank begins with 0, so a file could have points that all begin in the same slot, and would take quadratic
// time. The hash of a slot begins with the address of the table, which an operating system chooses at random. Where
// addresses are fixed, on a microcontroller or in a browser, clouds are small or the visitor's own.
class Table {
 public:
  Table(const float* numbers, std::size_t channels, std::size_t most) : numbers_(numbers), channels_(channels) {
    std::size_t slots = 64;
    while (slots < 4 * most) slots *= 2;
    slots_.assign(slots, 0);
    seed_ = reinterpret_cast<std::uintptr_t>(slots_.data());
  }

  // The slot where the search for a point begins.
  std::size_t start(std::size_t point) const {
    const std::uint64_t hash = hash_of(numbers_ + point * channels_, channels_, seed_);
    const std::size_t slot = static_cast<std::size_t>(hash) & (slots_.size() - 1);
    __builtin_prefetch(&slots_[slot]);
    return slot;
  }

  // The first point that equals this one; the point itself if it is new.
  std::uint32_t find(std::uint32_t point, std::size_t slot) {
    for (;; slot = (slot + 1) & (slots_.size() - 1)) {
      const std::uint32_t known = slots_[slot];
      if (known == 0) {
        slots_[slot] = point + 1;
        return point;
      }
      if (equal(known - 1, point)) return known - 1;
    }
  }

 private:
  bool equal(std::size_t a, std::size_t b) const {
    const float *x = numbers_ + a * channels_, *y = numbers_ + b * channels_;
    return std::equal(x, x + channels_, y);
  }

  const float* numbers_;
  std::size_t channels_;
  std::vector<std::uint32_t> slots_;
  std::uint64_t seed_;
};

struct Ranked {
  std::uint64_t rank;
  std::uint32_t index;
  bool operator<(const Ranked& other) const {
    return rank != other.rank ? rank < other.rank : index < other.index;
  }
};

// The points with a rank up to `highest`, without copies, in order.
std::vector<Ranked> distinct_up_to(const float* numbers, std::size_t points, std::size_t channels,
                                   std::uint64_t highest) {
  std::vector<Ranked> found;
  for (std::size_t i = 0; i < points; ++i) {
    const std::uint64_t rank = rank_of(numbers + i * channels, channels);
    if (rank <= highest) found.push_back({rank, static_cast<std::uint32_t>(i)});
  }
  Table table(numbers, channels, found.size());
  const auto is_copy = [&](const Ranked& point) {
    return table.find(point.index, table.start(point.index)) != point.index;
  };
  found.erase(std::remove_if(found.begin(), found.end(), is_copy), found.end());
  return found;
}

KeptPoints distinct_points(const float* numbers, std::size_t points, std::size_t channels) {
  Table table(numbers, channels, points);
  KeptPoints kept;
  std::size_t starts[kAhead];
  for (std::size_t block = 0; block < points; block += kAhead) {
    const std::size_t count = std::min(kAhead, points - block);
    for (std::size_t i = 0; i < count; ++i) starts[i] = table.start(block + i);
    for (std::size_t i = 0; i < count; ++i) {
      const auto point = static_cast<std::uint32_t>(block + i), first = table.find(point, starts[i]);
      if (first == point && kept.place.empty()) continue;
      if (kept.place.empty()) {  // the first copy: all points before it are their own
        kept.place.reserve(points);
        for (std::uint32_t j = 0; j < point; ++j) kept.place.push_back(j);
        kept.index = kept.place;
      }
      if (first == point) kept.index.push_back(point);
      kept.place.push_back(first == point ? static_cast<std::uint32_t>(kept.index.size() - 1) : kept.place[first]);
    }
  }
  return kept;
}

}  // namespace

// Ranks are spread evenly, so the bound of the lowest ones is known in advance but for a little luck. Copies make it too
// low; then it is raised.
KeptPoints kept_points(const float* numbers, std::size_t points, std::size_t channels, std::size_t most) {
  if (most == 0 || points <= most) return distinct_points(numbers, points, channels);
  const double wanted = static_cast<double>(most), share = (wanted + 4 * std::sqrt(wanted)) / static_cast<double>(points);
  std::uint64_t highest = share < 1 ? static_cast<std::uint64_t>(share * 0x1p64) : kHighest;
  std::vector<Ranked> found = distinct_up_to(numbers, points, channels, highest);
  while (found.size() < most && highest < kHighest) {
    highest = highest > kHighest / 4 ? kHighest : 4 * highest;
    found = distinct_up_to(numbers, points, channels, highest);
  }
  KeptPoints kept;
  if (found.size() > most) {
    std::vector<Ranked> ordered = found;
    const auto last = ordered.begin() + static_cast<std::ptrdiff_t>(most) - 1;
    std::nth_element(ordered.begin(), last, ordered.end());
    found.erase(std::remove_if(found.begin(), found.end(), [&](const Ranked& point) { return *last < point; }),
                found.end());
  }
  for (const Ranked& point : found) kept.index.push_back(point.index);
  return kept;
}

}  // namespace bipointnet
