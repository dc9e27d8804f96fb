// Operations on values of the cloud.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "engine/storage.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// A layer on the cloud as the kernels read it, prepared when a model is loaded.
struct VectorLayer {
  std::vector<float> columns;        // dense: the weights transposed, per group
  std::vector<std::uint64_t> tiles;  // bilinear layers: per group
  std::vector<float> a, b;           // the line

  void set_line(const Operation& operation);
};

// Memory that the operations of one run reuse.
struct VectorScratch {
  std::vector<int> counts;
  std::vector<std::uint64_t> words;
};

int activation_code(Activation activation);  // the argument `act` of the kernels

VectorLayer prepare_vector_layer(const Operation& operation);

// Runs an operation whose operands and results are values of the cloud. `category` is the category of the cloud.
void evaluate(const Kernels& kernels, const Network& network, const Operation& operation, const VectorLayer& prepared,
              int category, VectorScratch& scratch, std::vector<Storage>& values);

}  // namespace bipointnet
