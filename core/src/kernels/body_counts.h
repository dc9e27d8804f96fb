// Part of body.h: layers whose numbers of agreements become floats.

// scale z at the points from i on, where z = two agreements + less with agreements = low + 256 high, which is exact in
// float32, also by a fused multiply-add.
template <bool kHigh, bool kScaled>
inline __attribute__((always_inline)) Floats scaled_counts(const std::uint8_t* low, const std::uint8_t* high, int i,
                                                           Floats two, Floats less, const float* scales) {
  Floats count = Floats::from_bytes(low + i);
  if (kHigh) count = count.add(Floats::from_bytes(high + i).mul(Floats::broadcast(256.0f)));
  const Floats z = less.fma(count, two);
  return kScaled ? Floats::load(scales + i).mul(z) : z;
}

// One row of act(a (scale z) + b), z = 2 agreements - inputs.
template <bool kHigh, bool kScaled>
inline void line_row(const std::uint8_t* low, const std::uint8_t* high, int inputs, float a, float b,
                     const float* scales, int act, float* __restrict row) {
  const Floats two = Floats::broadcast(2.0f), less = Floats::broadcast(-static_cast<float>(inputs));
  for (int i = 0; i < kLanes; i += Floats::kWidth) {
    const Floats x = scaled_counts<kHigh, kScaled>(low, high, i, two, less, scales);
    activated(Floats::broadcast(a).mul(x).add(Floats::broadcast(b)), act).store(row + i);
  }
}

// Calls put(m) for each output after writing its agreements, as bytes, into low(m) and high(m).
template <class Low, class High, class Put>
inline __attribute__((always_inline)) void count_bytes(const std::uint64_t* slices, const BitslicedLayer& layer,
                                                       std::uint64_t* scratch, const Low& low, const High& high,
                                                       const Put& put) {
  alignas(64) std::uint64_t planes[(kMaxLevels + 1) * kWords];
  each_batch(
      layer.outputs, [&](int word) { return layer.varies[word]; },
      [&](const std::uint16_t* which, int number) {
        Bits parity;
        count(slices, layer, which, number, scratch, parity, [&](int m, const std::uint64_t* counted) {
          (parity ^ broadcast_bit(bit_of(layer.odd, m))).store(planes);
          for (int i = 0; i < layer.levels * kWords; ++i) planes[kWords + i] = counted[i];
          slices_to_bytes(planes, layer.levels < 8 ? layer.levels + 1 : 8, low(m));
          if (layer.levels >= 8) slices_to_bytes(planes + 8 * kWords, layer.levels - 7, high(m));
          put(m);
        });
      });
}

void bilinear_float(const std::uint64_t* slices, const BitslicedLayer& layer, const float* a, const float* b,
                    const float* scales, int act, std::uint64_t* scratch, float* rows) {
  const auto row_of = layer.levels >= 8 ? (scales == nullptr ? line_row<true, false> : line_row<true, true>)
                                        : (scales == nullptr ? line_row<false, false> : line_row<false, true>);
  alignas(64) std::uint8_t low[kLanes], high[kLanes];
  count_bytes(
      slices, layer, scratch, [&](int) { return low; }, [&](int) { return high; },
      [&](int m) {
        row_of(low, high, layer.inputs, a[m], b[m], scales, act, rows + static_cast<long>(m) * kLanes);
      });
}

// The largest product of scale and z of the first `points` points, where z = direction (2 agreements - inputs).
template <bool kHigh, bool kScaled>
inline float largest_product(const std::uint8_t* low, const std::uint8_t* high, int inputs, float direction,
                             const float* scales, int points) {
  const Floats two = Floats::broadcast(2.0f * direction);
  const Floats less = Floats::broadcast(-direction * static_cast<float>(inputs));
  const auto product = [&](int i) { return scaled_counts<kHigh, kScaled>(low, high, i, two, less, scales); };
  Floats best[2];  // two independent chains
  for (Floats& each : best) each = Floats::broadcast(-__builtin_huge_valf());
  int i = 0;
  for (; i + 2 * Floats::kWidth <= points; i += 2 * Floats::kWidth) {
    for (int c = 0; c < 2; ++c) best[c] = Floats::max(product(i + c * Floats::kWidth), best[c]);
  }
  for (; i + Floats::kWidth <= points; i += Floats::kWidth) best[0] = Floats::max(product(i), best[0]);
  alignas(64) float last[Floats::kWidth];
  Floats::max(best[0], best[1]).store(last);
  float largest = last[0];
  for (int j = 1; j < Floats::kWidth; ++j) largest = largest < last[j] ? last[j] : largest;
  if (i < points) product(i).store(last);
  for (int j = 0; i + j < points; ++j) largest = largest < last[j] ? last[j] : largest;
  return largest;
}

// A line a x + b rises or falls with x, also in floating point. So its maximum is its value for the largest or the
// smallest x, and only that is computed.
void bilinear_float_max(const std::uint64_t* slices, const BitslicedLayer& layer, const float* a, const float* b,
                        const float* scales, int act, int points, std::uint64_t* scratch, float* largest) {
  const auto of_row = layer.levels >= 8 ? (scales == nullptr ? largest_product<true, false> : largest_product<true, true>)
                                        : (scales == nullptr ? largest_product<false, false> : largest_product<false, true>);
  alignas(64) std::uint8_t low[kLanes], high[kLanes];
  count_bytes(
      slices, layer, scratch, [&](int) { return low; }, [&](int) { return high; },
      [&](int m) {
        const float direction = a[m] < 0 ? -1.0f : 1.0f;
        const float x = direction * of_row(low, high, layer.inputs, direction, scales, points);
        const float y = activate(a[m] * x + b[m], act);
        largest[m] = largest[m] < y ? y : largest[m];
      });
}

void bilinear_counts(const std::uint64_t* slices, const BitslicedLayer& layer, std::uint64_t* scratch,
                     std::uint8_t* low, std::uint8_t* high) {
  count_bytes(
      slices, layer, scratch, [&](int m) { return low + static_cast<long>(m) * kLanes; },
      [&](int m) { return high + static_cast<long>(m) * kLanes; }, [](int) {});
}

// Squares of bytes are transposed, then each row of them becomes floats.
template <bool kHigh, int kAct>
inline void elements_with(const std::uint8_t* low, const std::uint8_t* high, int count, int outputs, int inputs,
                          const float* a, const float* b, const float* factors, float* to, long stride) {
  constexpr int kAcross = Floats::kWidth > kByteSquare ? Floats::kWidth : kByteSquare, kRegs = kAcross / Floats::kWidth;
  const Floats two = Floats::broadcast(2.0f), less = Floats::broadcast(-static_cast<float>(inputs));
  int m = 0;
  for (; m + kAcross <= outputs; m += kAcross) {
    Floats slope[kRegs], shift[kRegs];
    for (int g = 0; g < kRegs; ++g) {
      slope[g] = Floats::load_any(a + m + g * Floats::kWidth);
      shift[g] = Floats::load_any(b + m + g * Floats::kWidth);
    }
    for (int i = 0; i < count; i += kByteSquare) {
      alignas(64) std::uint8_t lower[kByteSquare * kAcross], upper[kByteSquare * kAcross];
      for (int c = 0; c < kAcross; c += kByteSquare) {
        const long at = static_cast<long>(m + c) * kLanes + i;
        transpose_bytes(low + at, kLanes, lower + c, kAcross);
        if (kHigh) transpose_bytes(high + at, kLanes, upper + c, kAcross);
      }
      for (int j = 0; j < kByteSquare && i + j < count; ++j) {
        for (int g = 0; g < kRegs; ++g) {
          const int at = j * kAcross + g * Floats::kWidth;
          Floats number = Floats::from_bytes(lower + at);
          if (kHigh) number = number.add(Floats::from_bytes(upper + at).mul(Floats::broadcast(256.0f)));
          Floats result = activated(slope[g].mul(less.fma(number, two)).add(shift[g]), kAct);  // z is exact
          if (factors != nullptr) result = result.mul(Floats::broadcast(factors[i + j]));
          result.store_any(to + (i + j) * stride + m + g * Floats::kWidth);
        }
      }
    }
  }
  for (; m < outputs; ++m) {
    for (int i = 0; i < count; ++i) {
      const long at = static_cast<long>(m) * kLanes + i;
      const int number = low[at] + (kHigh ? 256 * high[at] : 0);
      const float result = activate(a[m] * static_cast<float>(2 * number - inputs) + b[m], kAct);
      to[i * stride + m] = factors == nullptr ? result : result * factors[i];
    }
  }
}

void elements_of_counts(const std::uint8_t* low, const std::uint8_t* high, int count, int outputs, int inputs,
                        const float* a, const float* b, const float* factors, int act, float* to, int stride) {
  const auto with = act == 1   ? (high == nullptr ? elements_with<false, 1> : elements_with<true, 1>)
                    : act == 2 ? (high == nullptr ? elements_with<false, 2> : elements_with<true, 2>)
                               : (high == nullptr ? elements_with<false, 0> : elements_with<true, 0>);
  with(low, high, count, outputs, inputs, a, b, factors, to, stride);
}
