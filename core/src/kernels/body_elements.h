// Part of body.h: arithmetic on floats, one number at a time. Compilers vectorize these loops.

enum : int { kAdd, kSubtract, kMultiply, kDivide };  // in the order of Op
enum : int { kRelu, kHardtanh, kLeakyRelu, kAbs, kSquareOf, kSqrt, kReciprocal, kExp, kSigmoid, kTanh };  // of Function

void binary(int op, const float* a, const float* b, int count, float* __restrict out) {
  switch (op) {
    case kAdd:
      for (int i = 0; i < count; ++i) out[i] = a[i] + b[i];
      break;
    case kSubtract:
      for (int i = 0; i < count; ++i) out[i] = a[i] - b[i];
      break;
    case kMultiply:
      for (int i = 0; i < count; ++i) out[i] = a[i] * b[i];
      break;
    default:
      for (int i = 0; i < count; ++i) out[i] = a[i] / b[i];
  }
}

void line(const float* x, float a, float b, int act, int count, float* __restrict out) {
  if (act == 1) {
    for (int i = 0; i < count; ++i) out[i] = activate(a * x[i] + b, 1);
  } else if (act == 2) {
    for (int i = 0; i < count; ++i) out[i] = activate(a * x[i] + b, 2);
  } else {
    for (int i = 0; i < count; ++i) out[i] = a * x[i] + b;
  }
}

// exp(x) in float64 as docs/format.md defines it. Adding 1.5 * 2^52 rounds to the nearest integer, ties to even, and
// leaves it in the lowest bits.
inline __attribute__((always_inline)) double exponential(double x) {
  constexpr double kRound = 0x1.8p52;
  constexpr double kInverse[] = {1.0,
                                 1.0,
                                 1.0 / 2,
                                 1.0 / 6,
                                 1.0 / 24,
                                 1.0 / 120,
                                 1.0 / 720,
                                 1.0 / 5040,
                                 1.0 / 40320,
                                 1.0 / 362880,
                                 1.0 / 3628800,
                                 1.0 / 39916800,
                                 1.0 / 479001600,
                                 1.0 / 6227020800};
  const double within = x > 709 ? 709 : x < -708 ? -708 : x;  // also for NaN, which is put back below
  const double shifted = within * 1.4426950408889634 + kRound, k = shifted - kRound;
  const double r = (within - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double p = kInverse[13];
  for (int i = 12; i >= 0; --i) p = p * r + kInverse[i];
  std::uint64_t bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  // 2^k in two factors, since 2^1023 is the largest power and k may be 1023 with p up to 1.42: one factor is enough for
  // |k| <= 1022, which the bounds on x imply up to 709 (k = 1023) and -708 (k = -1021).
  const std::uint64_t power_bits = (bits + 1023) << 52;
  double power;
  __builtin_memcpy(&power, &power_bits, sizeof power);
  const double y = p * power;
  return x > 709 ? __builtin_inf() : x < -708 ? 0.0 : x == x ? y : x;
}

void function(int which, float slope, const float* x, int count, float* __restrict out) {
  switch (which) {
    case kRelu:
      for (int i = 0; i < count; ++i) out[i] = activate(x[i], 1);
      break;
    case kHardtanh:
      for (int i = 0; i < count; ++i) out[i] = activate(x[i], 2);
      break;
    case kLeakyRelu:
      for (int i = 0; i < count; ++i) out[i] = x[i] > 0 ? x[i] : slope * x[i];
      break;
    case kAbs:
      for (int i = 0; i < count; ++i) out[i] = __builtin_fabsf(x[i]);
      break;
    case kSquareOf:
      for (int i = 0; i < count; ++i) out[i] = x[i] * x[i];
      break;
    case kSqrt:
      for (int i = 0; i < count; ++i) out[i] = __builtin_sqrtf(x[i]);
      break;
    case kReciprocal:
      for (int i = 0; i < count; ++i) out[i] = 1.0f / x[i];
      break;
    case kExp:
      for (int i = 0; i < count; ++i) out[i] = static_cast<float>(exponential(static_cast<double>(x[i])));
      break;
    case kSigmoid:
      for (int i = 0; i < count; ++i) {
        out[i] = static_cast<float>(1.0 / (1.0 + exponential(-static_cast<double>(x[i]))));
      }
      break;
    default:
      for (int i = 0; i < count; ++i) {
        out[i] = static_cast<float>(1.0 - 2.0 / (exponential(2.0 * static_cast<double>(x[i])) + 1.0));
      }
  }
}
