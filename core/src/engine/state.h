// The state of one run of a network on one cloud.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "engine/vector_ops.h"

namespace bipointnet {

// The value after one operation, for inspection and tests.
struct Value {
  bool bits = false;     // whether all numbers are 0 or 1
  std::size_t rows = 0;  // points; 0 for a vector
  std::size_t columns = 0;
  std::vector<float> numbers;
};

struct State {
  std::size_t points = 0;
  int category = -1;
  Vector vector;
  std::vector<Matrix> matrices;
  std::vector<std::vector<std::uint64_t>> kept;          // kept vectors, by number
  Aligned<std::uint64_t> kept_slices;                    // kept bits of points, block by block, as in Plan
  std::shared_ptr<const std::vector<Thresholds>> pools;  // for this number of points, per layer
  Thresholds joined;                                     // of the layer right after the last join
  std::vector<Value>* trace = nullptr;
};

}  // namespace bipointnet
