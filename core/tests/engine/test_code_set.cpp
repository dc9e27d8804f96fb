// The set of distinct codes.
#include "engine/code_set.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "kernels/dispatch.h"

using namespace bipointnet;

namespace {

// Codes are numbered in the order in which they were added, also after reset() and when the table grows.
void check_numbers() {
  CodeSet set;
  for (const std::size_t channels : {40, 64, 65, 200}) {
    const std::size_t words = (channels + 63) / 64;
    set.reset(channels, find_kernels("portable"), channels * channels);
    for (std::uint64_t i = 0; i < 30000; ++i) {
      std::vector<std::uint64_t> code(words, 7);
      code[static_cast<std::size_t>(i) % words] = i % 9000 << 16;
      const std::uint32_t number = set.insert(code.data());
      if (i < 9000) CHECK_EQUAL(number, static_cast<std::uint32_t>(i));
      CHECK(std::equal(code.begin(), code.end(), set.code(number)));
    }
  }
}

// Against std::set: slices of any width, merged sets, and back to slices.
void check_lanes() {
  std::mt19937_64 rng(2);
  for (const std::size_t channels : {1, 63, 64, 70, 128, 300}) {
    for (const std::size_t width : {1, 4, 8}) {
      const std::size_t words = (channels + 63) / 64;
      CodeSet all, parts[2];
      all.reset(channels, find_kernels("portable"), 100 * width);
      parts[0].reset(channels, find_kernels("portable"), 100 * width);
      parts[1].reset(channels, find_kernels("portable"), 100 * width);
      std::set<std::vector<std::uint64_t>> expected;
      for (int block = 0; block < 6; ++block) {
        const std::size_t count = 1 + static_cast<std::size_t>(rng() % (64 * width));
        std::vector<std::uint64_t> slices(channels * width);
        // Few channels vary, so that codes repeat.
        for (std::size_t k = 0; k < channels; ++k) {
          for (std::size_t w = 0; w < width; ++w) slices[k * width + w] = k % 23 == 0 ? rng() : k % 2 == 0 ? ~0ull : 0;
        }
        std::vector<std::uint32_t> numbers;
        all.insert_lanes(slices.data(), width, 0, count, &numbers);
        const auto middle = static_cast<std::size_t>(rng() % count);
        parts[block % 2].insert_lanes(slices.data(), width, 0, middle, nullptr);
        parts[block % 2].insert_lanes(slices.data(), width, middle, count - middle, nullptr);
        CHECK_EQUAL(numbers.size(), count);
        for (std::size_t i = 0; i < count; ++i) {
          std::vector<std::uint64_t> code(words);
          for (std::size_t k = 0; k < channels; ++k) {
            code[k / 64] |= (slices[k * width + i / 64] >> i % 64 & 1) << k % 64;
          }
          expected.insert(code);
          CHECK(std::equal(code.begin(), code.end(), all.code(numbers[i])));
        }
      }
      CHECK_EQUAL(all.size(), expected.size());
      parts[0].merge(parts[1]);
      CHECK_EQUAL(parts[0].size(), expected.size());
      std::vector<std::uint64_t> loaded(channels * width, 1);
      const std::size_t first = all.size() / 2;
      all.load(first, width, loaded.data());
      long wrong = 0;
      for (std::size_t i = 0; i < 64 * width; ++i) {
        for (std::size_t k = 0; k < channels; ++k) {
          const bool bit = loaded[k * width + i / 64] >> i % 64 & 1;
          wrong += bit != (first + i < all.size() && (all.code(first + i)[k / 64] >> k % 64 & 1));
        }
      }
      CHECK_EQUAL(wrong, 0);
    }
  }
}

}  // namespace

int main() {
  check_numbers();
  check_lanes();
  return check_report();
}
