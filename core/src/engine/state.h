// The state of one run of a network on one cloud.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "engine/code_set.h"
#include "engine/storage.h"
#include "engine/vector_ops.h"

namespace bipointnet {

// A matrix of the cloud that multiplies elements, as the kernels read it.
struct Matrix {
  Aligned<float> transposed;
  std::vector<float> negative_zeros;  // a bias of -0: adding it changes nothing, not even the sign of a zero
  std::vector<float> norms;           // the sum of |x| over each column
};

// The thresholds of a pool over groups, for every number n of elements of a group up to `most`.
struct GroupThresholds {
  std::size_t most = 0;
  std::vector<Thresholds> alike;     // by n, for groups that all have the same
  std::vector<std::uint32_t> codes;  // (most + 1) x outputs: codes for kernels.bilinear_pool_groups
};

struct State {
  int category = -1;
  std::vector<std::size_t> sizes;  // per domain: its number of elements
  std::vector<Storage> values;     // per value

  // Per operation, of those that need them in the current run:
  std::vector<std::shared_ptr<const Thresholds>> pools;        // pools over sets, or over groups that are all alike
  std::vector<std::shared_ptr<const GroupThresholds>> groups;  // other pools over groups
  std::vector<std::vector<std::uint32_t>> distinct;            // pools over distinct rows: n per parent element
  std::vector<CodeSet> rows;                                   // pools in passes over sets: their distinct rows
  std::vector<Thresholds> reduced;                             // layers that read bits of the cloud
  std::vector<Matrix> matrices;                                // transforms by a matrix of the cloud
  CodeSet codes;  // of the points
  VectorScratch scratch;
};

}  // namespace bipointnet
