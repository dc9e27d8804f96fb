// What a run of a network has worked out so far of one cloud.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "engine/vector_ops.h"

namespace bipointnet {

// The value after one operation, for people and tests.
struct Value {
  bool bits = false;     // whether the numbers are 0 or 1
  std::size_t rows = 0;  // points; 0 for a vector
  std::size_t columns = 0;
  std::vector<float> numbers;
};

struct State {
  std::size_t points = 0;
  int category = -1;
  Vector vector;
  std::vector<Matrix> matrices;
  std::vector<std::vector<std::uint64_t>> kept;      // vectors that the program keeps, by their numbers
  Aligned<std::uint64_t> kept_slices;                // and bits of points, block by block, as the plan arranges them
  std::shared_ptr<const std::vector<Starts>> pools;  // of this number of points, by layer
  Starts joined;                                     // of the layer right behind the last join
  std::vector<Value>* trace = nullptr;
};

}  // namespace bipointnet
