// Operations on one vector, the value of a cloud after its pool.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// The current value, and memory for the next one.
struct Vector {
  std::vector<std::uint64_t> bits;
  Aligned<float> floats;
  float scale = 1;  // of scaled bits
  Aligned<float> spare;
  std::vector<int> counts;
};

// A square matrix made by the operation `matrix`.
struct Matrix {
  std::size_t size;
  Aligned<float> rows, transposed;
  std::vector<float> negative_zeros;  // a bias of -0: adding it changes nothing, not even the sign of a zero
  std::vector<float> norms;           // the sum of |x| over each column
};

// A layer on vectors as the kernels read it, prepared when a model is loaded.
struct VectorLayer {
  std::vector<float> columns;        // dense: the weights transposed
  std::vector<std::uint64_t> tiles;  // bilinear layers
  std::vector<float> a, b;           // bilinear_float and bilinear_scaled: the line

  void set_line(const Layer& layer);
};

int activation_code(Activation activation);  // the argument `act` of the kernels

VectorLayer prepare_vector_layer(const Layer& layer);

// Writes the agreements of the bits with each row of weights to value.counts.
void count_agreements(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// Runs one of dense, sign, compare, sign_scaled, bilinear, bilinear_float and bilinear_scaled.
void evaluate(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value);

// The sum of the identity and the matrix in a value of size * size floats.
Matrix make_matrix(std::size_t size, const Vector& value);

}  // namespace bipointnet
