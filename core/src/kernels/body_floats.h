// Part of body.h: the kernels on floats, of a block or of one vector.

// One bit per point of [sum over k of weight[k] x[k] >= bound] for 64 points. Their sums are independent chains.
inline __attribute__((always_inline)) std::uint64_t sign_word(const float* x, int inputs, const float* weight,
                                                              float bound) {
  constexpr int kGroups = 64 / Floats::kWidth;
  Floats sums[kGroups];
  for (int g = 0; g < kGroups; ++g) sums[g] = Floats::load(x + g * Floats::kWidth).mul(Floats::broadcast(weight[0]));
  for (int k = 1; k < inputs; ++k) {
    const Floats w = Floats::broadcast(weight[k]);
    for (int g = 0; g < kGroups; ++g) {
      sums[g] = sums[g].add(Floats::load(x + k * kLanes + g * Floats::kWidth).mul(w));
    }
  }
  std::uint64_t word = 0;
  for (int g = 0; g < kGroups; ++g) {
    word |= static_cast<std::uint64_t>(sums[g].ge_mask(Floats::broadcast(bound))) << (g * Floats::kWidth);
  }
  return word;
}

constexpr int kSpan = Floats::kPointRegs * Floats::kWidth;  // points per tile

// Sums over k of weight[r][k] x[k] for kRows outputs at kSpan points. Each value of x is loaded once for all kRows
// outputs: rows of a block are a power of two apart, share few cache sets, and come from the second-level cache.
template <int kRows, bool kFused = false>
inline __attribute__((always_inline)) void products(const float* x, int inputs, const float* weight,
                                                    Floats (&sums)[kRows][Floats::kPointRegs]) {
  for (int g = 0; g < Floats::kPointRegs; ++g) {
    const Floats number = Floats::load(x + g * Floats::kWidth);
    for (int r = 0; r < kRows; ++r) sums[r][g] = number.mul(Floats::broadcast(weight[r * inputs]));
  }
  for (int k = 1; k < inputs; ++k) {
    Floats numbers[Floats::kPointRegs];
    for (int g = 0; g < Floats::kPointRegs; ++g) numbers[g] = Floats::load(x + k * kLanes + g * Floats::kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Floats w = Floats::broadcast(weight[r * inputs + k]);
      for (int g = 0; g < Floats::kPointRegs; ++g) {
        sums[r][g] = kFused ? sums[r][g].fma(numbers[g], w) : sums[r][g].add(numbers[g].mul(w));
      }
    }
  }
}

// Calls work(m, i, sums) for each output m and each tile of points that starts at i; kRows outputs are computed at
// once.
template <int kRows, bool kFused, class Work>
inline __attribute__((always_inline)) void each_product(const float* x, int inputs, const float* weight, int from,
                                                        int to, int points, const Work& work) {
  for (int m = from; m < to; m += kRows) {
    for (int i = 0; i < points; i += kSpan) {
      Floats sums[kRows][Floats::kPointRegs];
      products<kRows, kFused>(x + i, inputs, weight + static_cast<long>(m) * inputs, sums);
      for (int r = 0; r < kRows; ++r) work(m + r, i, sums[r]);
    }
  }
}

// The same for all outputs and 64 points.
template <bool kFused = false, class Work>
inline __attribute__((always_inline)) void all_products(const float* x, int inputs, const float* weight, int outputs,
                                                        const Work& work) {
  const int whole = outputs / Floats::kRows * Floats::kRows;
  each_product<Floats::kRows, kFused>(x, inputs, weight, 0, whole, 64, work);
  each_product<1, kFused>(x, inputs, weight, whole, outputs, 64, work);
}

// One bit per point of [sum >= bound] for kSpan points.
inline __attribute__((always_inline)) std::uint64_t reached(const Floats* sums, float bound) {
  std::uint64_t bits = 0;
  for (int g = 0; g < Floats::kPointRegs; ++g) {
    bits |= static_cast<std::uint64_t>(sums[g].ge_mask(Floats::broadcast(bound))) << (g * Floats::kWidth);
  }
  return bits;
}

// The largest |x| of a block. NaN is ignored: a sum that contains NaN is NaN however it is rounded.
inline float max_abs(const float* x, int inputs) {
  constexpr int kGroup = 4;
  Floats high[kGroup], low[kGroup];
  for (int g = 0; g < kGroup; ++g) high[g] = low[g] = Floats::broadcast(0.0f);
  for (int i = 0; i < inputs * kLanes; i += kGroup * Floats::kWidth) {
    for (int g = 0; g < kGroup; ++g) {
      const Floats number = Floats::load(x + i + g * Floats::kWidth);
      high[g] = Floats::max(number, high[g]);
      low[g] = Floats::min(number, low[g]);
    }
  }
  float largest = 0;
  for (int g = 0; g < kGroup; ++g) {
    alignas(64) float highs[Floats::kWidth], lows[Floats::kWidth];
    high[g].store(highs);
    low[g].store(lows);
    for (int i = 0; i < Floats::kWidth; ++i) {
      const float size = highs[i] > -lows[i] ? highs[i] : -lows[i];
      largest = largest > size ? largest : size;
    }
  }
  return largest;
}

// Signs at half the cost. The format demands products that are rounded before they are added. A fused multiply-add
// skips that rounding and needs half as many instructions. In both cases each product is rounded at most n times, so
// the sum of n products differs from the true sum by at most
//
//     g times the sum of |weight[k] x[k]|,    g = n u / (1 - n u),  u = 2^-24,
//
// and the two sums differ by at most 2 g norms[m] max|x|. If the fused sum is farther from the bound than this, its
// sign is the demanded one; the few other sums are computed again as the format demands. `margin` is slightly larger
// than this limit, because it is itself rounded and because subnormal numbers have a larger relative error.
constexpr int kMinFused = 16;        // fewer inputs or outputs: not worth it
constexpr float kMaxMargin = 1e30f;  // far below overflow

void dense_signs(const float* x, int inputs, const float* weight, const float* bound, const float* norms, int outputs,
                 std::uint64_t* slices) {
  const bool fused = Floats::kHasFma && norms != nullptr && inputs >= kMinFused && outputs >= kMinFused;
  const float error = fused ? 2.05f * 0x1p-24f * static_cast<float>(inputs) * max_abs(x, inputs) : 0;
  for (int word = 0; word < kWords; ++word) {
    const float* numbers = x + 64 * word;
    const auto put = [&](int m, int i, std::uint64_t bits) {
      std::uint64_t& slice = slices[m * kWords + word];
      slice = i == 0 ? bits : slice | bits << i;
    };
    if (inputs <= 3) {
      for (int m = 0; m < outputs; ++m) {
        put(m, 0,
            inputs == 3 ? sign_word(numbers, 3, weight + 3 * m, bound[m])
                        : sign_word(numbers, inputs, weight + inputs * m, bound[m]));
      }
    } else if (!fused) {
      all_products(numbers, inputs, weight, outputs,
                   [&](int m, int i, const Floats* sums) { put(m, i, reached(sums, bound[m])); });
    } else {
      all_products<true>(numbers, inputs, weight, outputs, [&](int m, int i, const Floats* sums) {
        const float bound_abs = bound[m] < 0 ? -bound[m] : bound[m],
                    margin = error * norms[m] + 0x1p-22f * bound_abs + 0x1p-126f;
        std::uint64_t bits = reached(sums, bound[m] + margin);
        if (!(margin < kMaxMargin) || bits != reached(sums, bound[m] - margin)) {
          Floats exact[1][Floats::kPointRegs];
          products<1>(numbers + i, inputs, weight + static_cast<long>(m) * inputs, exact);
          bits = reached(exact[0], bound[m]);
        }
        put(m, i, bits);
      });
    }
  }
}

// The same as `activate`, also for NaN.
inline Floats activated(Floats x, int act) {
  if (act == 1) return Floats::max(x, Floats::broadcast(0.0f));
  if (act == 2) return Floats::min(Floats::broadcast(1.0f), Floats::max(Floats::broadcast(-1.0f), x));
  return x;
}

void dense(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows) {
  for (int word = 0; word < kWords; ++word) {
    all_products(x + 64 * word, inputs, weight, outputs, [&](int m, int i, const Floats* sums) {
      float* row = rows + static_cast<long>(m) * kLanes + 64 * word + i;
      for (int g = 0; g < Floats::kPointRegs; ++g) {
        activated(sums[g].add(Floats::broadcast(bias[m])), act).store(row + g * Floats::kWidth);
      }
    });
  }
}

// Eight partial sums, over k = j, j + 8, j + 16, ..., added in order at the end.
void mean_abs(const float* x, int inputs, float* means) {
  constexpr int kGroup = 16, kSums = 8;
  for (int i = 0; i < kLanes; i += kGroup) {
    double sums[kSums][kGroup] = {};
    for (int k = 0; k < inputs; ++k) {
      double* sum = sums[k % kSums];
      for (int j = 0; j < kGroup; ++j) sum[j] += static_cast<double>(__builtin_fabsf(x[k * kLanes + i + j]));
    }
    for (int j = 0; j < kGroup; ++j) {
      double total = 0;
      for (int s = 0; s < kSums; ++s) total += sums[s][j];
      means[i + j] = static_cast<float>(total / inputs);
    }
  }
}

void update_max(const float* x, int count, int points, float* __restrict largest) {
  constexpr int kGroup = 16;
  for (int k = 0; k < count; ++k, x += kLanes) {
    float best[kGroup];
    for (int j = 0; j < kGroup; ++j) best[j] = largest[k];
    int i = 0;
    for (; i + kGroup <= points; i += kGroup) {
      for (int j = 0; j < kGroup; ++j) best[j] = best[j] < x[i + j] ? x[i + j] : best[j];
    }
    for (int j = 0; i + j < points; ++j) best[j] = best[j] < x[i + j] ? x[i + j] : best[j];
    for (int j = 0; j < kGroup; ++j) largest[k] = largest[k] < best[j] ? best[j] : largest[k];
  }
}

// One bit per number of [x >= at]; several(k) is a register of numbers from number k on, one(k) a single number.
template <class Register, class One>
inline __attribute__((always_inline)) void pack_bits(int count, float at, std::uint64_t* bits, const Register& several,
                                                     const One& one) {
  const Floats bound = Floats::broadcast(at);
  int k = 0;
  for (; k + 64 <= count; k += 64) {
    std::uint64_t word = 0;
    for (int g = 0; g < 64; g += Floats::kWidth) {
      word |= static_cast<std::uint64_t>(several(k + g).ge_mask(bound)) << g;
    }
    *bits++ = word;
  }
  if (k == count) return;
  std::uint64_t word = 0;
  int j = 0;
  for (; k + j + Floats::kWidth <= count; j += Floats::kWidth) {
    word |= static_cast<std::uint64_t>(several(k + j).ge_mask(bound)) << j;
  }
  for (; k + j < count; ++j) word |= static_cast<std::uint64_t>(one(k + j) >= at) << j;
  *bits = word;
}

void compare(const float* x, int count, float at, std::uint64_t* bits) {
  pack_bits(
      count, at, bits, [&](int k) __attribute__((always_inline)) { return Floats::load_any(x + k); },
      [&](int k) __attribute__((always_inline)) { return x[k]; });
}

void difference_signs(const float* a, const float* b, int count, std::uint64_t* bits) {
  const Floats less = Floats::broadcast(-1.0f);  // a - b is a + (-1 b), rounded the same
  pack_bits(
      count, 0.0f, bits,
      [&](int k) __attribute__((always_inline)) { return Floats::load_any(a + k).add(Floats::load_any(b + k).mul(less)); },
      [&](int k) __attribute__((always_inline)) { return a[k] - b[k]; });
}

void affine(const int* counts, int inputs, const float* a, const float* b, float scale, int outputs, int act,
            float* __restrict y) {
  for (int m = 0; m < outputs; ++m) {
    y[m] = activate(a[m] * (scale * static_cast<float>(2 * counts[m] - inputs)) + b[m], act);
  }
}

void dense_vector(const float* x, int inputs, const float* columns, const float* bias, int outputs, int act, float* y) {
  for (int m = 0; m < outputs; ++m) y[m] = columns[m] * x[0];
  for (int k = 1; k < inputs; ++k) {
    for (int m = 0; m < outputs; ++m) y[m] += columns[static_cast<long>(k) * outputs + m] * x[k];
  }
  for (int m = 0; m < outputs; ++m) y[m] = activate(y[m] + bias[m], act);
}
