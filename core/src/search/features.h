// Nearest points in spaces of many channels, where boxes do not help.
#pragma once

#include "search/nearest_keys.h"

namespace bipointnet::search {

// The same as nearest_keys.
void nearest_features(const Kernels& kernels, const Problem& problem, std::size_t wanted, unsigned threads,
                      const PutKeys& put);

}  // namespace bipointnet::search
