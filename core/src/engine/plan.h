// What is worked out of a network when it is loaded: layers as the kernels read them, and its passes over the points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/bitsliced.h"
#include "engine/vector_ops.h"
#include "format/network.h"

namespace bipointnet {

// Weights of the columns that kept vectors fill in a layer right behind `join`: they are counted once a cloud.
struct JoinedVectors {
  int inputs = 0;
  std::vector<std::uint64_t> tiles;
};

struct Prepared {
  bool of_floats = false;               // whether the value before it is one of floats
  bool to_floats = false;               // and the value after it
  std::unique_ptr<SlicedLayer> sliced;  // bilinear layers on points, without the columns of joined vectors
  Starts starts;                        // for the layer's own thresholds; for counting where it leaves floats
  std::vector<float> bound;             // dense on points: -bias, what the sum is compared with
  std::vector<float> sizes;             // and the sum of |weight| of each output
  JoinedVectors joined;                 // bilinear right behind join
  VectorLayer vector;                   // layers on vectors, and the lines of layers on points
};

struct Pass {
  std::size_t first = 0;  // `points` or `join`
  std::size_t last = 0;   // the pool, or the last operation of the program
  std::size_t coded = 0;  // the operation whose bits may be made distinct, or 0
  bool leaves = false;    // whether it leaves something at every point: kept bits, or logits
  bool shares = false;    // whether it may run on the distinct codes of all passes that leave something
};

struct Plan {
  // Kept bits of points lie beside each other in a block, in the order in which they are kept.
  std::vector<std::size_t> kept_columns;  // the first column of each kept value, by their numbers
  std::size_t kept_width = 0;             // columns of all

  std::vector<Prepared> layers;  // one a layer of the network
  std::vector<Pass> passes;
  std::size_t most_floats = 0;   // the most channels that floats of points have
  std::size_t most_bits = 0;     // and bits
};

Plan make_plan(const Network& network);

// Whether the layer behind a join takes the kept vectors apart from the bits of the points.
bool reads_join_in_parts(const Network& network, std::size_t join);

// Whether what such a layer reads of a point lies in one piece already.
bool joins_in_place(const Network& network, std::size_t join);

}  // namespace bipointnet
