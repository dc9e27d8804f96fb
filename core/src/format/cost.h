// What a run costs, by the formulas of the table of operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/network.h"

namespace bipointnet {

// Numbers saturate.
struct Cost {
  std::uint64_t float_multiply_adds = 0;
  std::uint64_t bit_multiply_adds = 0;
  std::uint64_t distances = 0;  // squares of differences, and comparisons of coordinates

  // The weighted multiply-adds of docs/format.md, "Limits".
  std::uint64_t weighted() const;
};

// The cost of one operation, where sizes[i] is the number of elements of domain i: network.sizes(points).
Cost cost(const Network& network, const Operation& operation, const std::vector<std::size_t>& sizes);

// Throws FormatError if the golden cloud takes more time or memory than a file may demand.
void check_golden_cost(const Network& network);

}  // namespace bipointnet
