// Part of body.h: the kernels of neighbor searches in many channels. search/features.cpp derives how they are used.

// |a|^2 + |b|^2 - 2 <a, b> for kRows centers and one panel of points.
template <int kRows>
inline __attribute__((always_inline)) void coarse_tile(const std::int32_t* panel, int pairs,
                                                       const std::int32_t* centers, const std::int32_t* norms,
                                                       const std::int32_t* point_norms, std::int32_t* squares,
                                                       int stride) {
  constexpr int kRegs = kPanelPoints / Ints::kWidth;
  Ints sums[kRows][kRegs];
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kRegs; ++g) sums[r][g] = Ints::broadcast(0);
  }
  const auto add = [&](int k) __attribute__((always_inline)) {
    Ints numbers[kRegs];
    for (int g = 0; g < kRegs; ++g) numbers[g] = Ints::load(panel + k * kPanelPoints + g * Ints::kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Ints center = Ints::broadcast(centers[r * pairs + k]);
      for (int g = 0; g < kRegs; ++g) sums[r][g] = sums[r][g].add_products(numbers[g], center);
    }
  };
  int k = 0;
  for (; k + 2 <= pairs; k += 2) {  // two at once: GCC copies the sums at the end of each iteration
    add(k);
    add(k + 1);
  }
  if (k < pairs) add(k);
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kRegs; ++g) {
      const Ints both = Ints::load(point_norms + g * Ints::kWidth).add(Ints::broadcast(norms[r]));
      both.sub(sums[r][g].add(sums[r][g])).store(squares + r * stride + g * Ints::kWidth);
    }
  }
}

void coarse_squares(const CoarsePoints& points, int panels, const std::int32_t* centers, const std::int32_t* norms,
                    int rows, std::int32_t* squares) {
  static_assert(kCoarseRows % Ints::kRows == 0, "tiles divide the rows");
  const int stride = panels * kPanelPoints;
  for (int row = 0; row < rows; row += Ints::kRows) {
    for (int p = 0; p < panels; ++p) {
      const std::int32_t* panel = points.panels + static_cast<std::int64_t>(p) * points.pairs * kPanelPoints;
      coarse_tile<Ints::kRows>(panel, points.pairs, centers + row * points.pairs, norms + row,
                               points.norms + p * kPanelPoints, squares + row * stride + p * kPanelPoints, stride);
    }
  }
}

inline int count_within(const std::int32_t* numbers, int count, std::int32_t bound) {
  int within = 0;
  for (int i = 0; i < count; ++i) within += numbers[i] <= bound;
  return within;
}

// If `wanted` of the minima of disjoint groups are <= bound, so are `wanted` numbers. With twice as many groups as
// `wanted`, rarely two of the smallest numbers are in one group. Then bisection, which need not find the least bound.
std::int32_t bound_of_smallest(const std::int32_t* numbers, int count, int wanted) {
  constexpr int kLeast = 64, kMost = 1024, kSteps = 9;
  int groups = kLeast;
  while (groups < 3 * wanted && groups < kMost) groups *= 2;
  alignas(64) std::int32_t minima[kMost];
  if (groups < wanted) return 0x7fffffff;
  for (int i = 0; i < groups; ++i) minima[i] = i < count ? numbers[i] : 0x7fffffff;
  for (int start = groups; start < count; start += groups) {
    const int size = count - start < groups ? count - start : groups;
    for (int i = 0; i < size; ++i) minima[i] = numbers[start + i] < minima[i] ? numbers[start + i] : minima[i];
  }
  std::int32_t low = minima[0], high = minima[0];
  for (int i = 0; i < groups; ++i) {
    low = minima[i] < low ? minima[i] : low;
    high = minima[i] > high ? minima[i] : high;
  }
  for (int step = 0; step < kSteps && low < high; ++step) {
    const std::int32_t middle = low + (high - low) / 2;
    if (count_within(minima, groups, middle) >= wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

int places_within(const std::int32_t* numbers, int count, std::int32_t bound, std::uint32_t* places) {
  constexpr int kSpan = 2 * kPanelPoints;
  const Ints limit = Ints::broadcast(bound);
  int found = 0;
  for (int first = 0; first < count; first += kSpan) {
    const int size = count - first < kSpan ? count - first : kSpan;
    std::uint64_t within = 0;
    for (int i = 0; i < size; i += Ints::kWidth) {
      within |= static_cast<std::uint64_t>(Ints::load(numbers + first + i).le_mask(limit)) << i;
    }
    for (; within != 0; within &= within - 1) {
      places[found++] = static_cast<std::uint32_t>(first + __builtin_ctzll(within));
    }
  }
  return found;
}

double square(const double* a, const double* b, int count) {
  constexpr int kRegs = kDoublePad / Doubles::kWidth;
  Doubles sums[kRegs];
  for (int g = 0; g < kRegs; ++g) sums[g] = Doubles::broadcast(0);
  for (int i = 0; i < count; i += kDoublePad) {
    for (int g = 0; g < kRegs; ++g) {
      const int at = i + g * Doubles::kWidth;
      const Doubles step = Doubles::load(a + at).sub(Doubles::load(b + at));
      sums[g] = sums[g].fma(step, step);
    }
  }
  for (int g = 1; g < kRegs; ++g) sums[0] = sums[0].add(sums[g]);
  alignas(64) double numbers[Doubles::kWidth];
  sums[0].store(numbers);
  double total = 0;
  for (int i = 0; i < Doubles::kWidth; ++i) total += numbers[i];
  return total;
}
