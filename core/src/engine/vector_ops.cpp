#include "engine/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace bipointnet {
namespace {

constexpr std::size_t kSums = 8;

// Eight partial sums, over k = j, j + 8, j + 16, ..., added in order at the end: the same result on every machine, and
// no long chain of dependent additions.
float mean_abs(const Aligned<float>& x) {
  double sums[kSums] = {};
  std::size_t k = 0;
  for (; k + kSums <= x.size(); k += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += std::abs(double{x[k + j]});
  }
  for (std::size_t j = 0; k + j < x.size(); ++j) sums[j] += std::abs(double{x[k + j]});
  double total = 0;
  for (const double sum : sums) total += sum;
  return static_cast<float>(total / static_cast<double>(x.size()));
}

void binarize(const Kernels& kernels, float at, Vector& value) {
  value.bits.resize(words_for(value.floats.size()));
  kernels.compare(value.floats.data(), static_cast<int>(value.floats.size()), at, value.bits.data());
}

}  // namespace

int activation_code(Activation activation) {
  return activation == Activation::relu ? 1 : activation == Activation::hardtanh ? 2 : 0;
}

void VectorLayer::set_line(const Layer& layer) {
  for (std::size_t i = 0; i < layer.line.size(); i += 2) {
    a.push_back(static_cast<float>(layer.line[i]));
    b.push_back(static_cast<float>(layer.line[i + 1]));
  }
}

VectorLayer prepare_vector_layer(const Layer& layer) {
  VectorLayer prepared;
  const std::size_t inputs = size(layer.inputs), outputs = size(layer.outputs);
  if (layer.op == Op::dense) {
    prepared.columns.resize(inputs * outputs);
    for (std::size_t m = 0; m < outputs; ++m) {
      for (std::size_t k = 0; k < inputs; ++k) prepared.columns[k * outputs + m] = layer.weight[m * inputs + k];
    }
  }
  if (!layer.bits.empty()) prepared.tiles = tiled(layer.bits, layer.inputs, layer.outputs);
  if (layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled) prepared.set_line(layer);
  return prepared;
}

void count_agreements(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value) {
  if (value.counts.size() < size(layer.outputs + kTile)) value.counts.resize(size(layer.outputs + kTile));
  kernels.agreements(value.bits.data(), prepared.tiles.data(), layer.inputs, layer.outputs, value.counts.data());
}

void evaluate(const Kernels& kernels, const Layer& layer, const VectorLayer& prepared, Vector& value) {
  const std::size_t outputs = size(layer.outputs);
  switch (layer.op) {
    case Op::dense:
      value.spare.resize(outputs);
      kernels.dense_vector(value.floats.data(), layer.inputs, prepared.columns.data(), layer.bias.data(), layer.outputs,
                           activation_code(layer.activation), value.spare.data());
      value.floats.swap(value.spare);
      break;
    case Op::sign_scaled: value.scale = mean_abs(value.floats); [[fallthrough]];
    case Op::sign:
    case Op::compare: binarize(kernels, layer.at, value); break;
    case Op::bilinear:
      count_agreements(kernels, layer, prepared, value);
      value.bits.assign(words_for(outputs), 0);
      for (std::size_t m = 0; m < outputs; ++m) {
        if (value.counts[m] >= layer.threshold[m]) value.bits[m / 64] |= std::uint64_t{1} << m % 64;
      }
      break;
    case Op::bilinear_float:
    case Op::bilinear_scaled:
      count_agreements(kernels, layer, prepared, value);
      value.floats.resize(outputs);
      kernels.affine(value.counts.data(), layer.inputs, prepared.a.data(), prepared.b.data(),
                     layer.op == Op::bilinear_scaled ? value.scale : 1.0f, layer.outputs,
                     activation_code(layer.activation), value.floats.data());
      break;
    default: throw std::logic_error("not an operation on a vector");
  }
}

Matrix make_matrix(std::size_t size, const Vector& value) {
  constexpr std::size_t kSide = 16;  // in squares, so that rows and columns stay in the cache
  Matrix matrix{size, value.floats, Aligned<float>(size * size), std::vector<float>(size, -0.0f),
                std::vector<float>(size)};
  for (std::size_t r = 0; r < size; ++r) {
    matrix.rows[r * size + r] += 1.0f;
    for (std::size_t c = 0; c < size; ++c) matrix.norms[c] += std::abs(matrix.rows[r * size + c]);
  }
  for (std::size_t first = 0; first < size; first += kSide) {
    for (std::size_t c = 0; c < size; ++c) {
      for (std::size_t r = first; r < std::min(first + kSide, size); ++r) {
        matrix.transposed[c * size + r] = matrix.rows[r * size + c];
      }
    }
  }
  return matrix;
}

}  // namespace bipointnet
