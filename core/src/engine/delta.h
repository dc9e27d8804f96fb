// delta(n), the shift of an entropy-maximising max pool.
#pragma once

#include <cstdint>

namespace bipointnet {

// Phi^-1(2^(-1/n)) for n >= 1: the median of the largest of n standard normal values.
double delta(std::uint64_t n);

}  // namespace bipointnet
