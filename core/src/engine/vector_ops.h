// Operations on one vector: what a cloud is after its pool.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// A value, and room for the next one.
struct Vector {
  std::vector<std::uint64_t> bits;
  Aligned<float> floats;
  float scale = 1;  // of scaled bits
  Aligned<float> spare;
  std::vector<int> counts;
};

// A square matrix that a program keeps.
struct Matrix {
  std::size_t size;
  Aligned<float> rows, transposed;
  std::vector<float> nothing;  // a bias of -0: adding it changes nothing, not even the sign of a zero
  std::vector<float> sizes;    // of each column, the sum of its |numbers|
};

// What is worked out of a layer when a model is loaded.
struct VectorLayer {
  std::vector<float> columns;        // dense: the weights transposed
  std::vector<std::uint64_t> tiles;  // bilinear layers
  std::vector<float> a, b;           // bilinear_float and bilinear_scaled: the line

  void take_line(const Layer& layer);
};

int activation_code(Activation activation);  // as the kernels take it

VectorLayer prepare_vector_layer(const Layer& layer);

// Agreements of the bits with each row, into value.counts.
void count_agreements(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// dense, sign, compare, sign_scaled, bilinear, bilinear_float and bilinear_scaled.
void run_vector(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// The matrix in a value of size * size floats, and the identity.
Matrix keep_matrix(std::size_t size, const Vector& value);

}  // namespace bipointnet
