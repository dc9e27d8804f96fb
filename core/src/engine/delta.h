// delta(n), the shift of an entropy-maximizing max pool.
#pragma once

#include <cstdint>

namespace bipointnet {

// Phi^-1(2^(-1/n)), the median of the largest of n standard normal values: the same double on every platform. n is at
// least 1 and at most 2^53, else std::invalid_argument is thrown.
double delta(std::uint64_t n);

}  // namespace bipointnet
