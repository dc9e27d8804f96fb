// Fields of lanes, for instruction sets without instructions for them. Included like body.h, before it.

// All ones in the lanes of group g if bit `bit` of codes[g] is set, else zeros.
template <int kField>
inline __attribute__((always_inline)) Bits spread_to(const std::uint32_t* codes, int bit) {
  constexpr int kFields = 64 / kField, kWords = kLanes / 64;
  constexpr std::uint64_t kOnes = ~std::uint64_t{0} >> (64 - kField);
  alignas(64) std::uint64_t words[kWords];
  for (int word = 0; word < kWords; ++word) {
    std::uint64_t sum = 0;
    for (int f = 0; f < kFields; ++f) {
      sum |= (kOnes & (0 - std::uint64_t{codes[word * kFields + f] >> bit & 1})) << (f * kField % 64);
    }
    words[word] = sum;
  }
  return Bits::load(words);
}

// Bit g: whether some lane of group g is 1.
template <int kField>
inline __attribute__((always_inline)) std::uint64_t any_in_groups(Bits lanes) {
  constexpr int kFields = 64 / kField, kWords = kLanes / 64;
  constexpr std::uint64_t kOnes = ~std::uint64_t{0} >> (64 - kField);
  alignas(64) std::uint64_t words[kWords];
  lanes.store(words);
  std::uint64_t groups = 0;
  for (int word = 0; word < kWords; ++word) {
    for (int f = 0; f < kFields; ++f) {
      groups |= std::uint64_t{(words[word] >> (f * kField % 64) & kOnes) != 0} << (word * kFields + f);
    }
  }
  return groups;
}

// All ones in the lanes of each group without a 1.
template <int kField>
inline __attribute__((always_inline)) Bits none_in_groups(Bits lanes) {
  constexpr int kFields = 64 / kField, kWords = kLanes / 64;
  constexpr std::uint64_t kOnes = ~std::uint64_t{0} >> (64 - kField);
  alignas(64) std::uint64_t words[kWords];
  lanes.store(words);
  for (int word = 0; word < kWords; ++word) {
    std::uint64_t none = 0;
    for (int f = 0; f < kFields; ++f) {
      const std::uint64_t own = kOnes << (f * kField % 64);
      none |= (words[word] & own) == 0 ? own : 0;
    }
    words[word] = none;
  }
  return Bits::load(words);
}
