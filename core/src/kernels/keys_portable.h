// Keys of neighbor searches, for instruction sets that cannot move chosen lanes together. Included like body.h, before
// it.

// Appends the keys of the kRegs registers of points with D <= limit; returns how many. May write up to kKeyPad more.
template <int kRegs>
inline __attribute__((always_inline)) int append_keys(const Doubles (&squares)[kRegs], Doubles limit,
                                                      const std::uint32_t* labels, std::uint64_t room,
                                                      std::int64_t* keys) {
  alignas(64) double numbers[kRegs * Doubles::kWidth];
  std::uint64_t inside = 0;
  for (int g = 0; g < kRegs; ++g) {
    inside |= static_cast<std::uint64_t>(squares[g].le_mask(limit)) << (g * Doubles::kWidth);
    squares[g].store(numbers + g * Doubles::kWidth);
  }
  int found = 0;
  for (; inside != 0; inside &= inside - 1) {
    const int i = __builtin_ctzll(inside);
    std::uint64_t bits;
    __builtin_memcpy(&bits, numbers + i, sizeof bits);
    keys[found++] = static_cast<std::int64_t>((bits & ~room) | labels[i]);
  }
  return found;
}

// Moves the keys below `border` to the front.
inline void move_below(std::int64_t* keys, int count, std::int64_t border) {
  for (int i = 0, kept = 0; i < count; ++i) {
    const std::int64_t key = keys[i];
    keys[kept] = key;
    kept += key < border;
  }
}
