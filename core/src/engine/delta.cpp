#include "engine/delta.h"

#include <cmath>

namespace bipointnet {

// With q = 1 - 2^(-1/n), which expm1 gives without cancellation, delta solves erfc(x / sqrt 2) / 2 = q. A rational
// approximation (Abramowitz and Stegun 26.2.23) is good to 4.5e-4; Newton's method squares the error each time.
double delta(std::uint64_t n) {
  if (n <= 1) return 0.0;
  const double q = -std::expm1(-std::log(2.0) / static_cast<double>(n));
  const double t = std::sqrt(-2.0 * std::log(q));
  double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  const double root_two = std::sqrt(2.0), density = 1.0 / std::sqrt(2.0 * std::acos(-1.0));
  for (int step = 0; step < 4; ++step) {
    x += (0.5 * std::erfc(x / root_two) - q) / (density * std::exp(-0.5 * x * x));
  }
  return x;
}

}  // namespace bipointnet
