// Random choices from a seed, or from the bytes of a fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet::random {

class Source {
 public:
  explicit Source(std::uint64_t seed) : state_(seed) {}

  // Choices come from the bytes, as long as there are some, and then from a generator. Words always come from the
  // generator, which the first byte seeds: so a fuzzer changes the structure of a program, not its weights.
  Source(const std::uint8_t* bytes, std::size_t size)
      : bytes_(bytes), left_(size), state_(size > 0 ? std::uint64_t{bytes[0]} : 0) {}

  // An integer from 0 to limit - 1. A byte, or two of them, give the same number for the same limit.
  int below(int limit) {
    const auto most = static_cast<std::uint64_t>(limit);
    if (left_ == 0) return static_cast<int>(word() % most);
    std::uint64_t choice = next_byte();
    if (limit > 256) choice = choice << 8 | (left_ > 0 ? next_byte() : std::uint8_t{0});
    return static_cast<int>(choice % most);
  }

  int between(int least, int most) { return least + below(most - least + 1); }

  bool one_in(int count) { return below(count) == 0; }

  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<int>(choices.size())))];
  }

  // SplitMix64.
  std::uint64_t word() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  // In [-1, 1), a multiple of 1 / steps.
  float number(int steps) {
    const auto count = static_cast<std::uint64_t>(2 * steps);
    return static_cast<float>(static_cast<int>(word() % count) - steps) / static_cast<float>(steps);
  }

 private:
  std::uint8_t next_byte() {
    --left_;
    return *bytes_++;
  }

  const std::uint8_t* bytes_ = nullptr;
  std::size_t left_ = 0;
  std::uint64_t state_;
};

// points x channels. coarse: on a grid of few places, so that points are equal and distances tie.
inline std::vector<float> random_cloud(Source& source, int points, int channels, bool coarse) {
  std::vector<float> cloud;
  for (int i = 0; i < points * channels; ++i) cloud.push_back(source.number(coarse ? 4 : 1 << 20));
  return cloud;
}

}  // namespace bipointnet::random
