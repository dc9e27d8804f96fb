// The nearest points of every center, as keys.
#pragma once

#include <cstdint>
#include <functional>

#include "search/problem.h"

namespace bipointnet::search {

// Receives the smallest keys of a center, ascending.
using PutKeys = std::function<void(std::size_t center, const std::int64_t* keys)>;

// Calls put(center, keys) once per center, from up to `threads` threads, with the `wanted` smallest keys;
// 1 <= wanted <= points. The points must be ranked; labels are ranks.
void nearest_keys(const Kernels& kernels, const Problem& problem, std::size_t wanted, unsigned threads,
                  const PutKeys& put);

}  // namespace bipointnet::search
