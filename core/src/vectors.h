// Operations on one vector: what a cloud is after its pool, or a single point where every point has floats of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned.h"
#include "kernels.h"
#include "network.h"
#include "sliced.h"

namespace bipointnet {

// A value, and room for the next one.
struct Vector {
  std::vector<std::uint64_t> bits;
  Aligned<float> floats;
  float scale = 1;  // of scaled bits
  Aligned<float> spare;
  std::vector<int> counts;
};

// What is worked out of a layer when a model is loaded.
struct VectorLayer {
  std::vector<float> columns;        // dense: the weights transposed
  std::vector<std::uint64_t> tiles;  // bilinear layers
  std::vector<float> a, b;           // bilinear_float and bilinear_scaled: the line
};

VectorLayer prepare_vector_layer(const Layer& layer);

// Agreements of the bits with each row, into value.counts.
void count_agreements(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// dense, sign, compare, sign_scaled, bilinear, bilinear_float and bilinear_scaled.
void run_vector(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// The first numbers, a row vector, times a square matrix, row-major.
void transform_vector(const Kernels& kernels, const Aligned<float>& matrix, std::size_t size, Vector& value);

}  // namespace bipointnet
