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

void scale(float* x, float by, int count) {
  for (int i = 0; i < count; ++i) x[i] *= by;
}

// out[i] = after(exp(before(i))), where exp is in float64 as docs/format.md defines it.
template <class Before, class After>
inline __attribute__((always_inline)) void with_exponentials(int count, float* __restrict out, const Before& before,
                                                             const After& after) {
  constexpr int kRegs = 4, kSpan = kRegs * Doubles::kWidth;
  alignas(64) double x[kSpan], y[kSpan];
  for (int first = 0; first < count; first += kSpan) {
    const int size = count - first < kSpan ? count - first : kSpan;
    for (int i = 0; i < kSpan; ++i) x[i] = i < size ? before(first + i) : 0;
    Doubles powers[kRegs];
    for (int g = 0; g < kRegs; ++g) {
      const Doubles raised = Doubles::max(Doubles::load(x + g * Doubles::kWidth), Doubles::broadcast(-708));
      powers[g] = Doubles::min(raised, Doubles::broadcast(709));
    }
    exponentials(powers);
    for (int g = 0; g < kRegs; ++g) powers[g].store(y + g * Doubles::kWidth);
    for (int i = 0; i < size; ++i) {
      const double power = x[i] > 709 ? __builtin_inf() : x[i] < -708 ? 0.0 : x[i] == x[i] ? y[i] : x[i];
      out[first + i] = static_cast<float>(after(power));
    }
  }
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
      with_exponentials(
          count, out, [&](int i) { return static_cast<double>(x[i]); }, [](double power) { return power; });
      break;
    case kSigmoid:
      with_exponentials(
          count, out, [&](int i) { return -static_cast<double>(x[i]); },
          [](double power) { return 1.0 / (1.0 + power); });
      break;
    default:
      with_exponentials(
          count, out, [&](int i) { return 2.0 * static_cast<double>(x[i]); },
          [](double power) { return 1.0 - 2.0 / (power + 1.0); });
  }
}
