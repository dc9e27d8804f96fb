// Part of body.h: the kernels of neighbor searches. docs/format.md, "Neighbors", defines the results.

constexpr int kBlockRegs = kBlockPoints / Doubles::kWidth;

// D of all points of a block to the center.
template <int kRegs>
inline __attribute__((always_inline)) void block_squares(const double* block, const double* center, int channels,
                                                         Doubles (&sums)[kRegs]) {
  for (int g = 0; g < kRegs; ++g) {
    const Doubles step = Doubles::load(block + g * Doubles::kWidth).sub(Doubles::broadcast(center[0]));
    sums[g] = step.mul(step);
  }
  for (int c = 1; c < channels; ++c) {
    const Doubles place = Doubles::broadcast(center[c]);
    for (int g = 0; g < kRegs; ++g) {
      const Doubles step = Doubles::load(block + c * kBlockPoints + g * Doubles::kWidth).sub(place);
      sums[g] = sums[g].fma(step, step);
    }
  }
}

// Three channels are so frequent that their loop is unrolled.
template <int kRegs>
inline __attribute__((always_inline)) void block_squares_any(const double* block, const double* center, int channels,
                                                             Doubles (&sums)[kRegs]) {
  if (channels == 3) {
    block_squares(block, center, 3, sums);
  } else {
    block_squares(block, center, channels, sums);
  }
}

inline const double* block_at(const PointBlocks& points, int block) {
  return points.places + static_cast<std::int64_t>(block) * points.channels * kBlockPoints;
}

// The smallest D that a point in each of kWidth boxes can have.
inline __attribute__((always_inline)) Doubles box_squares(const PointBlocks& points, const double* center, int block) {
  Doubles sum = Doubles::broadcast(0);
  for (int c = 0; c < points.channels; ++c) {
    const std::int64_t at = static_cast<std::int64_t>(c) * points.stride + block;
    const Doubles place = Doubles::broadcast(center[c]), below = Doubles::load(points.low + at).sub(place),
                  above = place.sub(Doubles::load(points.high + at));
    const Doubles outside = Doubles::max(Doubles::max(below, above), Doubles::broadcast(0));
    sum = sum.fma(outside, outside);
  }
  return sum;
}

int collect(const PointBlocks& points, const std::uint32_t* labels, std::uint64_t room, const double* center,
            double bound, int* block, int capacity, std::int64_t* keys) {
  constexpr int kBoxes = 64;  // bits of a word
  const Doubles limit = Doubles::broadcast(bound);
  int found = 0;
  const int start = *block / kBoxes * kBoxes;
  std::uint64_t wanted = ~std::uint64_t{0} << (*block - start);
  for (int first = start; first < points.blocks; first += kBoxes, wanted = ~std::uint64_t{0}) {
    const int size = points.stride - first < kBoxes ? points.stride - first : kBoxes;
    std::uint64_t near = 0;
    for (int b = 0; b < size; b += Doubles::kWidth) {
      near |= static_cast<std::uint64_t>(box_squares(points, center, first + b).le_mask(limit)) << b;
    }
    for (near &= wanted; near != 0; near &= near - 1) {
      const int b = first + __builtin_ctzll(near);
      if (found + kBlockPoints > capacity) {
        *block = b;
        return found;
      }
      Doubles squares[kBlockRegs];
      block_squares_any(block_at(points, b), center, points.channels, squares);
      found += append_keys(squares, limit, labels + static_cast<std::int64_t>(b) * kBlockPoints, room, keys + found);
    }
  }
  *block = points.blocks;
  return found;
}

// The place of a key in the sorted order is the number of smaller keys. No branches: for few keys this is faster than
// any other sort.
void sort_keys(std::int64_t* keys, int count, int wanted, std::int64_t* sorted) {
  constexpr int kRegs = kKeyPad / Keys::kWidth < 4 ? kKeyPad / Keys::kWidth : 4, kSpan = kRegs * Keys::kWidth;
  std::int64_t all[kMostSorted + 1];
  for (int i = 0; i < kKeyPad; ++i) keys[count + i] = 0x7fffffffffffffff;
  for (int first = 0; first < count; first += kSpan) {
    Keys own[kRegs], smaller[kRegs];
    for (int g = 0; g < kRegs; ++g) {
      own[g] = Keys::load(keys + first + g * Keys::kWidth);
      smaller[g] = Keys::broadcast(0);
    }
    for (int j = 0; j < count; ++j) {
      const Keys other = Keys::broadcast(keys[j]);
      for (int g = 0; g < kRegs; ++g) smaller[g] = smaller[g].add_less(other, own[g]);
    }
    alignas(64) std::int64_t places[kSpan];
    for (int g = 0; g < kRegs; ++g) smaller[g].store(places + g * Keys::kWidth);
    for (int i = 0; i < kSpan; ++i) all[places[i]] = keys[first + i];  // pads are all at `count`
  }
  for (int i = 0; i < wanted; ++i) sorted[i] = all[i];
}

// The number of keys below `bound`; pads follow them.
inline int keys_below(const std::int64_t* keys, int count, std::int64_t bound) {
  const Keys limit = Keys::broadcast(bound);
  int below = 0;
  for (int i = 0; i < count; i += Keys::kWidth) below += Keys::load(keys + i).count_below(limit);
  return below;
}

// A key between two others: the one whose squared distance is halfway between theirs.
inline std::int64_t halfway(std::int64_t low, std::int64_t high) {
  double a, b;
  __builtin_memcpy(&a, &low, sizeof a);
  __builtin_memcpy(&b, &high, sizeof b);
  a += (b - a) * 0.5;
  __builtin_memcpy(&low, &a, sizeof low);
  return low;
}

// Bisection for a key that has `wanted` keys below it. Squared distances to points on a surface are spread evenly, so
// halving them finds one in a few steps; if it does not, halving the keys as integers does. No branch depends on single
// keys.
Border select_keys(std::int64_t* keys, int count, int wanted) {
  constexpr std::int64_t kLast = 0x7fffffffffffffff;
  constexpr int kEven = 20;  // steps for keys that are spread evenly
  constexpr std::int64_t kLabels = std::int64_t{1} << 52;  // keys below it are labels, or tiny numbers
  std::int64_t low = 0, high = keys[0];  // fewer than `wanted` keys are below low, at least `wanted` below high
  for (int i = 1; i < count; ++i) high = keys[i] > high ? keys[i] : high;
  for (int i = 0; i < kKeyPad; ++i) keys[count + i] = kLast;
  std::int64_t border = high;
  for (int step = high < kLabels ? kEven : 0, below = count - 1; below != wanted; ++step) {
    border = step < kEven ? halfway(low, high) : low + (high - low) / 2;
    below = keys_below(keys, count, border);
    (below < wanted ? low : high) = border;
  }
  Border sides{0, kLast};
  for (int i = 0; i < count; ++i) {
    const std::int64_t above = -std::int64_t{keys[i] >= border};  // all bits, or none; GCC would make a choice a branch
    const std::int64_t inside = keys[i] & ~above, outside = (keys[i] | ~above) & kLast;
    sides.below = inside > sides.below ? inside : sides.below;
    sides.above = outside < sides.above ? outside : sides.above;
  }
  move_below(keys, count, border);
  return sides;
}

// The largest of kWidth numbers.
inline double max_of(Doubles x) {
  alignas(64) double numbers[Doubles::kWidth];
  x.store(numbers);
  double largest = numbers[0];
  for (int i = 1; i < Doubles::kWidth; ++i) largest = numbers[i] > largest ? numbers[i] : largest;
  return largest;
}

// A block in which no gap is larger than the distance of its box keeps its gaps. As points are chosen, gaps shrink and
// fewer and fewer blocks are visited.
Farthest update_gaps(const PointBlocks& points, const std::uint32_t* labels, const double* center, double* gaps,
                     double* most) {
  Doubles largest = Doubles::broadcast(-1);
  for (int first = 0; first < points.blocks; first += Doubles::kWidth) {
    const Doubles before = Doubles::load(most + first);
    unsigned near = before.gt_mask(box_squares(points, center, first));
    for (; near != 0; near &= near - 1) {
      const int b = first + __builtin_ctz(near);
      Doubles sums[kBlockRegs];
      block_squares_any(block_at(points, b), center, points.channels, sums);
      double* own = gaps + static_cast<std::int64_t>(b) * kBlockPoints;
      Doubles high = Doubles::broadcast(-1);
      for (int g = 0; g < kBlockRegs; ++g) {
        const Doubles gap = Doubles::min(Doubles::load(own + g * Doubles::kWidth), sums[g]);
        gap.store(own + g * Doubles::kWidth);
        high = Doubles::max(high, gap);
      }
      most[b] = max_of(high);
    }
    largest = Doubles::max(largest, Doubles::load(most + first));
  }
  Farthest best{max_of(largest), -1};
  const Doubles wanted = Doubles::broadcast(best.gap);
  for (int first = 0; first < points.blocks; first += Doubles::kWidth) {
    unsigned equal = wanted.le_mask(Doubles::load(most + first));
    for (; equal != 0; equal &= equal - 1) {
      const std::int64_t block = static_cast<std::int64_t>(first + __builtin_ctz(equal)) * kBlockPoints;
      std::uint64_t lanes = 0;
      for (int g = 0; g < kBlockRegs; ++g) {
        const Doubles gap = Doubles::load(gaps + block + g * Doubles::kWidth);
        lanes |= static_cast<std::uint64_t>(wanted.le_mask(gap)) << (g * Doubles::kWidth);
      }
      for (; lanes != 0; lanes &= lanes - 1) {
        const std::int64_t i = block + __builtin_ctzll(lanes);
        if (best.position >= 0 && labels == nullptr) return {best.gap, -1};
        if (best.position < 0 || labels[i] < labels[best.position]) best.position = i;
      }
    }
  }
  return best;
}

constexpr double kRounder = 0x1.8p52;       // adding and subtracting it rounds a number below 2^51 to an integer
constexpr double kNegligible = -21.5;       // round(exp(x) 2^30) is 0 for x <= -31 log(2) = -21.487...
constexpr double kInverseFactorials[14] = { // 1 / i!
    1.0,         1.0,          1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,        1.0 / 720,
    1.0 / 5040,  1.0 / 40320,  1.0 / 362880,  1.0 / 3628800,  1.0 / 39916800,  1.0 / 479001600,  1.0 / 6227020800};

inline Doubles rounded(Doubles x) { return x.add(Doubles::broadcast(kRounder)).sub(Doubles::broadcast(kRounder)); }

// exp(x) as docs/format.md, "Arithmetic", defines it, for -708 <= x <= 709; without fused multiply-add. kRegs
// independent chains hide the latency of each.
template <int kRegs>
inline __attribute__((always_inline)) void exponentials(Doubles (&x)[kRegs]) {
  Doubles k[kRegs], p[kRegs];
  for (int g = 0; g < kRegs; ++g) {
    k[g] = rounded(x[g].mul(Doubles::broadcast(1.4426950408889634)));
    x[g] = x[g].sub(k[g].mul(Doubles::broadcast(0x1.62e42feep-1)));
    x[g] = x[g].sub(k[g].mul(Doubles::broadcast(0x1.a39ef35793c76p-33)));
    p[g] = Doubles::broadcast(kInverseFactorials[13]);
  }
  for (int i = 12; i >= 0; --i) {
    __asm__("" : "+r"(i));  // not unrolled: GCC would compute the unrolled chains one after another
    const Doubles term = Doubles::broadcast(kInverseFactorials[i]);
    for (int g = 0; g < kRegs; ++g) p[g] = p[g].mul(x[g]).add(term);
  }
  for (int g = 0; g < kRegs; ++g) x[g] = p[g].mul(k[g].pow2());
}

// The same within 2^-40: a shorter polynomial, whose error is at most (log(2) / 2)^11 / 11! < 2^-42, and fused
// multiply-add where the instruction set has it.
template <int kRegs>
inline __attribute__((always_inline)) void nearly_exponentials(Doubles (&x)[kRegs]) {
  Doubles k[kRegs], p[kRegs];
  for (int g = 0; g < kRegs; ++g) {
    k[g] = rounded(x[g].mul(Doubles::broadcast(1.4426950408889634)));
    x[g] = x[g].fma(k[g], Doubles::broadcast(-0x1.62e42feep-1)).fma(k[g], Doubles::broadcast(-0x1.a39ef35793c76p-33));
    p[g] = Doubles::broadcast(kInverseFactorials[10]);
  }
  for (int i = 9; i >= 0; --i) {
    __asm__("" : "+r"(i));
    const Doubles term = Doubles::broadcast(kInverseFactorials[i]);
    for (int g = 0; g < kRegs; ++g) p[g] = term.fma(p[g], x[g]);
  }
  for (int g = 0; g < kRegs; ++g) x[g] = p[g].mul(k[g].pow2());
}

// round(exp(x) 2^30). A number that is nearly right, by less than 2^-10, is rounded to the same integer unless it is as
// near to the middle between two integers. Then the number itself is computed.
template <int kRegs>
inline __attribute__((always_inline)) void whole_exponentials(Doubles (&x)[kRegs]) {
  const Doubles unit = Doubles::broadcast(0x1p30);
  Doubles given[kRegs], farthest = Doubles::broadcast(0);
  for (int j = 0; j < kRegs; ++j) given[j] = x[j];
  nearly_exponentials(x);
  for (int j = 0; j < kRegs; ++j) {
    const Doubles number = x[j].mul(unit);
    x[j] = rounded(number);
    farthest = Doubles::max(farthest, Doubles::max(number.sub(x[j]), x[j].sub(number)));
  }
  if (__builtin_expect(farthest.gt_mask(Doubles::broadcast(0.5 - 0x1p-10)) == 0, 1)) return;
  exponentials(given);
  for (int j = 0; j < kRegs; ++j) x[j] = rounded(given[j].mul(unit));
}

// D is the same from a to b and from b to a, so a pair of blocks is visited once. All sums are integers below 2^53.
double sum_density(const PointBlocks& points, const double* center, double factor, int own, double* sums) {
  constexpr int kRegs = kBlockRegs < 4 ? kBlockRegs : 4;
  const Doubles scale = Doubles::broadcast(factor), least = Doubles::broadcast(kNegligible);
  Doubles total = Doubles::broadcast(0);
  const int start = own / Doubles::kWidth * Doubles::kWidth;
  for (int first = start; first < points.blocks; first += Doubles::kWidth) {
    unsigned near = box_squares(points, center, first).mul(scale).gt_mask(least);
    if (first == start) near &= ~0u << (own - start);
    for (; near != 0; near &= near - 1) {
      const int block = first + __builtin_ctz(near);
      Doubles squares[kBlockRegs];
      block_squares_any(block_at(points, block), center, points.channels, squares);
      double* others = sums + static_cast<std::int64_t>(block) * kBlockPoints;
      for (int g = 0; g < kBlockRegs; g += kRegs) {
        Doubles x[kRegs];
        for (int j = 0; j < kRegs; ++j) x[j] = Doubles::max(squares[g + j].mul(scale), least);
        whole_exponentials(x);
        for (int j = 0; j < kRegs; ++j) total = total.add(x[j]);
        if (block == own) continue;
        for (int j = 0; j < kRegs; ++j) {
          double* other = others + (g + j) * Doubles::kWidth;
          Doubles::load(other).add(x[j]).store(other);
        }
      }
    }
  }
  alignas(64) double numbers[Doubles::kWidth];
  total.store(numbers);
  for (int i = 1; i < Doubles::kWidth; ++i) numbers[0] += numbers[i];
  return numbers[0];
}

constexpr SearchKernels make_search_kernels() {
  SearchKernels kernels{};
  kernels.collect = collect;
  kernels.sort_keys = sort_keys;
  kernels.select_keys = select_keys;
  kernels.update_gaps = update_gaps;
  kernels.sum_density = sum_density;
  kernels.coarse_squares = coarse_squares;
  kernels.bound_of_smallest = bound_of_smallest;
  kernels.places_within = places_within;
  kernels.square = square;
  return kernels;
}
