// The kernels that work on floats, of a block or of one vector: part of body.h.

// One bit a point of [sum over k of weight[k] x[k] >= bound], for 64 points, whose sums do not wait for each other.
inline __attribute__((always_inline)) std::uint64_t sign_word(const float* x, int inputs, const float* weight,
                                                              float bound) {
  constexpr int kGroups = 64 / Floats::kWidth;
  Floats sums[kGroups];
  for (int g = 0; g < kGroups; ++g) sums[g] = Floats::load(x + g * Floats::kWidth).mul(Floats::all(weight[0]));
  for (int k = 1; k < inputs; ++k) {
    const Floats w = Floats::all(weight[k]);
    for (int g = 0; g < kGroups; ++g) {
      sums[g] = sums[g].plus(Floats::load(x + k * kLanes + g * Floats::kWidth).mul(w));
    }
  }
  std::uint64_t word = 0;
  for (int g = 0; g < kGroups; ++g) {
    word |= static_cast<std::uint64_t>(sums[g].at_least(Floats::all(bound))) << (g * Floats::kWidth);
  }
  return word;
}

constexpr int kSpan = Floats::kTogether * Floats::kWidth;  // points that are worked on at once

// Sums over k of weight[r][k] x[k] for kRows outputs at kSpan points. What is loaded of x serves all of the outputs: rows
// of a block lie a power of two apart, in few sets of a cache, and come from the second level.
template <int kRows, bool kFused = false>
inline __attribute__((always_inline)) void products(const float* x, int inputs, const float* weight,
                                                    Floats (&sums)[kRows][Floats::kTogether]) {
  for (int g = 0; g < Floats::kTogether; ++g) {
    const Floats number = Floats::load(x + g * Floats::kWidth);
    for (int r = 0; r < kRows; ++r) sums[r][g] = number.mul(Floats::all(weight[r * inputs]));
  }
  for (int k = 1; k < inputs; ++k) {
    Floats numbers[Floats::kTogether];
    for (int g = 0; g < Floats::kTogether; ++g) numbers[g] = Floats::load(x + k * kLanes + g * Floats::kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Floats w = Floats::all(weight[r * inputs + k]);
      for (int g = 0; g < Floats::kTogether; ++g) {
        sums[r][g] = kFused ? sums[r][g].fused(numbers[g], w) : sums[r][g].plus(numbers[g].mul(w));
      }
    }
  }
}

// Calls work(m, i, sums) with products of kRows outputs from m on, at the points from i on.
template <int kRows, bool kFused, class Work>
inline __attribute__((always_inline)) void each_product(const float* x, int inputs, const float* weight, int from,
                                                        int to, int points, const Work& work) {
  for (int m = from; m < to; m += kRows) {
    for (int i = 0; i < points; i += kSpan) {
      Floats sums[kRows][Floats::kTogether];
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

// One bit a point of [sum >= bound], for kSpan points.
inline __attribute__((always_inline)) std::uint64_t reached(const Floats* sums, float bound) {
  std::uint64_t bits = 0;
  for (int g = 0; g < Floats::kTogether; ++g) {
    bits |= static_cast<std::uint64_t>(sums[g].at_least(Floats::all(bound))) << (g * Floats::kWidth);
  }
  return bits;
}

// The largest |x| of a block, leaving out what is not a number: a sum with it is none either, however it is rounded.
inline float largest_size(const float* x, int inputs) {
  constexpr int kGroup = 4;
  Floats high[kGroup], low[kGroup];
  for (int g = 0; g < kGroup; ++g) high[g] = low[g] = Floats::all(0.0f);
  for (int i = 0; i < inputs * kLanes; i += kGroup * Floats::kWidth) {
    for (int g = 0; g < kGroup; ++g) {
      const Floats number = Floats::load(x + i + g * Floats::kWidth);
      high[g] = Floats::larger(number, high[g]);
      low[g] = Floats::smaller(number, low[g]);
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

// Signs at half of the price. A sum of n products, each rounded on its way at most n times, is within
//
//     g times the sum of |weight[k] x[k]|,    g = n u / (1 - n u),  u = 2^-24
//
// of the true one, whether products are rounded before they are added, as the format says, or not. So the two differ by
// at most 2 g sizes[m] max|x|. Where the sum without that rounding, which takes half as many instructions, is farther
// from the bound than this, it has the sign that is asked for; the few others are worked out as the format says. `most`
// is a little more than this, for what is rounded in it and for numbers so small that they are rounded otherwise.
constexpr int kFewest = 16;        // inputs and outputs from which on it pays
constexpr float kLargest = 1e30f;  // far from where sums overflow

void signs(const float* x, int inputs, const float* weight, const float* bound, const float* sizes, int outputs,
           std::uint64_t* slices) {
  const bool fuses = Floats::kFuses && sizes != nullptr && inputs >= kFewest && outputs >= kFewest;
  const float error = fuses ? 2.05f * 0x1p-24f * static_cast<float>(inputs) * largest_size(x, inputs) : 0;
  for (int word = 0; word < kWords; ++word) {
    const float* numbers = x + 64 * word;
    const auto put = [&](int m, int i, std::uint64_t bits) {
      std::uint64_t& slice = slices[m * kWords + word];
      slice = i == 0 ? bits : slice | bits << i;
    };
    if (inputs <= 3) {
      for (int m = 0; m < outputs; ++m) {
        put(m, 0, inputs == 3 ? sign_word(numbers, 3, weight + 3 * m, bound[m])
                              : sign_word(numbers, inputs, weight + inputs * m, bound[m]));
      }
    } else if (!fuses) {
      all_products(numbers, inputs, weight, outputs,
                   [&](int m, int i, const Floats* sums) { put(m, i, reached(sums, bound[m])); });
    } else {
      all_products<true>(numbers, inputs, weight, outputs, [&](int m, int i, const Floats* sums) {
        const float size = bound[m] < 0 ? -bound[m] : bound[m], most = error * sizes[m] + 0x1p-22f * size + 0x1p-126f;
        std::uint64_t bits = reached(sums, bound[m] + most);
        if (!(most < kLargest) || bits != reached(sums, bound[m] - most)) {
          Floats exact[1][Floats::kTogether];
          products<1>(numbers + i, inputs, weight + static_cast<long>(m) * inputs, exact);
          bits = reached(exact[0], bound[m]);
        }
        put(m, i, bits);
      });
    }
  }
}

// As `activate`, whatever is not a number included.
inline Floats activated(Floats x, int act) {
  if (act == 1) return Floats::larger(x, Floats::all(0.0f));
  if (act == 2) return Floats::smaller(Floats::all(1.0f), Floats::larger(Floats::all(-1.0f), x));
  return x;
}

void dense(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows) {
  for (int word = 0; word < kWords; ++word) {
    all_products(x + 64 * word, inputs, weight, outputs, [&](int m, int i, const Floats* sums) {
      float* row = rows + static_cast<long>(m) * kLanes + 64 * word + i;
      for (int g = 0; g < Floats::kTogether; ++g) {
        activated(sums[g].plus(Floats::all(bias[m])), act).store(row + g * Floats::kWidth);
      }
    });
  }
}

// Eight sums of every eighth number, in order, then added.
void scales(const float* x, int inputs, float* scales) {
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
      scales[i + j] = static_cast<float>(total / inputs);
    }
  }
}

void raise(const float* x, int count, int points, float* __restrict largest) {
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

void compare(const float* x, int count, float at, std::uint64_t* bits) {
  const float one = 1.0f;
  int k = 0;
  for (; k + 64 <= count; k += 64) *bits++ = sign_word(x + k, 1, &one, at);
  if (k == count) return;
  std::uint64_t word = 0;
  for (int j = 0; k + j < count; ++j) word |= static_cast<std::uint64_t>(x[k + j] >= at) << j;
  *bits = word;
}

void line(const int* counts, int inputs, const float* a, const float* b, float scale, int outputs, int act,
          float* __restrict y) {
  for (int m = 0; m < outputs; ++m) {
    y[m] = activate(a[m] * (scale * static_cast<float>(2 * counts[m] - inputs)) + b[m], act);
  }
}

void vector(const float* x, int inputs, const float* columns, const float* bias, int outputs, int act, float* y) {
  for (int m = 0; m < outputs; ++m) y[m] = columns[m] * x[0];
  for (int k = 1; k < inputs; ++k) {
    for (int m = 0; m < outputs; ++m) y[m] += columns[static_cast<long>(k) * outputs + m] * x[k];
  }
  for (int m = 0; m < outputs; ++m) y[m] = activate(y[m] + bias[m], act);
}
