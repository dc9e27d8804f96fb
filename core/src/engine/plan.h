// The plan of a network, made once when it is loaded: its layers as the kernels read them, and its passes over the
// points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/bitsliced.h"
#include "engine/vector_ops.h"
#include "format/network.h"

namespace bipointnet {

// The weights of a layer right after `join` that multiply kept vectors: their agreements are counted once per cloud.
struct JoinedVectors {
  int inputs = 0;
  std::vector<std::uint64_t> tiles;
};

struct PreparedLayer {
  bool reads_floats = false;                    // whether the value before it is floats
  bool writes_floats = false;                   // whether the value after it is floats
  std::unique_ptr<BitslicedWeights> bitsliced;  // bilinear on points; without the columns of joined vectors
  Thresholds thresholds;                        // of the layer, or for counting if it writes floats
  std::vector<float> bound;                     // dense on points: -bias, which the sum is compared with
  std::vector<float> norms;                     // dense on points: the sum of |weight| per output
  JoinedVectors joined;                         // bilinear right after join
  VectorLayer vector;                           // layers on vectors; a and b of layers on points
};

struct Pass {
  std::size_t first = 0;       // `points` or `join`
  std::size_t last = 0;        // the pool, or the last operation of the program
  std::size_t code_op = 0;     // the operation whose bits are the code of a point, or 0: there is none
  bool stores_points = false;  // whether it stores something per point: kept bits or logits
  bool shares_codes = false;   // whether it may run on distinct codes, which are the same for all passes that store
};

struct Plan {
  // The kept bits of points are stored together per block, in the order in which they are kept.
  std::vector<std::size_t> kept_columns;  // the first column of each kept value
  std::size_t kept_width = 0;             // the number of columns

  std::vector<PreparedLayer> layers;  // one per layer of the network
  std::vector<Pass> passes;
  std::size_t max_float_channels = 0;  // over all values that are floats of points
  std::size_t max_bit_channels = 0;    // over all values that are bits of points
};

Plan make_plan(const Network& network);

// Whether the layer after a join reads the kept vectors separately from the bits of the points.
bool reads_join_in_parts(const Network& network, std::size_t join);

// Whether the bits of points that such a layer reads are already contiguous.
bool joins_in_place(const Network& network, std::size_t join);

}  // namespace bipointnet
