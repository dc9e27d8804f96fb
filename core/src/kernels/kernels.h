// The table of functions that an instruction set fills in.
//
// Points lie across the bits: a block holds `lanes` points, and one channel of a block is a slice of `lanes` bits, that
// is lanes / 64 words. Bits of a block are K slices, floats of a block K rows of `lanes` numbers. Lanes past the last
// point of a cloud hold anything; whoever pools masks them.
#pragma once

#include <cstdint>

namespace bipointnet {

// A bilinear layer, prepared for slices in bitsliced.cpp, where its arithmetic is explained.
struct Sliced {
  int inputs;
  int outputs;
  int pairs;                       // ceil(inputs / 2)
  int levels;                      // bits of the counter
  const std::uint8_t* offsets[2];  // which of a pair's eight entries is the carry, times 8; for an even and for an odd
                                   // start. Part by part, in it output by output, in that pair by pair
  const std::uint64_t* odd;        // a bit an output: whether an odd number of its inputs are complemented
  const std::uint32_t* start;      // outputs: what counting starts with
  const std::uint64_t* varies;     // a bit an output: whether it depends on the inputs
  const std::uint64_t* always;     // a bit an output: whether it fires whatever they are
};

constexpr int kMostLevels = 15;
constexpr int kEntries = 8;
constexpr int kTile = 8;

// Layers are counted in parts of the inputs whose table of carries stays in a first-level cache. Between two parts the
// counters of a batch of outputs wait in memory.
constexpr int kPartLevels = 7;
constexpr int kPart = 1 << kPartLevels;  // pairs
constexpr int kBatch = 512;              // outputs
constexpr int kRoomSlices = kPart * kEntries + kBatch * kMostLevels;

// act: 0 none, 1 relu, 2 hardtanh. Written as the minima and maxima that processors have. Static, as every instruction
// set must keep its own copy.
static inline float activate(float x, int act) {
  if (act == 1) return x > 0 ? x : 0.0f;
  if (act == 2) {
    const float raised = -1.0f > x ? -1.0f : x;
    return 1.0f < raised ? 1.0f : raised;
  }
  return x;
}

struct Kernels {
  const char* name;
  int lanes;

  // On a block. `room` is memory for kRoomSlices slices; what is written overlaps nothing that is read.

  // Slices of [sum over k of weight[m][k] x[k] >= bound[m]]. sizes[m] is the sum over k of |weight[m][k]|, about; `sizes`
  // may be null, which takes longer.
  void (*signs)(const float* x, int inputs, const float* weight, const float* bound, const float* sizes, int outputs,
                std::uint64_t* slices);

  // Rows of act(weight x + bias).
  void (*dense)(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows);

  // The mean of |x[k]| at every point, `lanes` numbers.
  void (*scales)(const float* x, int inputs, float* scales);

  // Slices of [agreements >= threshold].
  void (*layer)(const std::uint64_t* slices, const Sliced& layer, std::uint64_t* room, std::uint64_t* out);

  // Sets bit m of `fired` where some point of the block has agreements >= threshold; leaves out what is set already.
  void (*pool)(const std::uint64_t* slices, const Sliced& layer, const std::uint64_t* mask, std::uint64_t* room,
               std::uint64_t* fired);

  // Both, for one layer with two thresholds.
  void (*layer_and_pool)(const std::uint64_t* slices, const Sliced& layer, const Sliced& pool,
                         const std::uint64_t* mask, std::uint64_t* room, std::uint64_t* out, std::uint64_t* fired);

  // Rows of act(a (scale z) + b), z = 2 agreements - inputs, of a layer that starts with 0. `scales` holds a number a
  // point, or is null: all are 1.
  void (*lines)(const std::uint64_t* slices, const Sliced& layer, const float* a, const float* b, const float* scales,
                int act, std::uint64_t* room, float* rows);

  // largest[k] = max(largest[k], x[k] at the first `points` points).
  void (*raise)(const float* x, int count, int points, float* largest);

  // On one vector.

  // Bits of [x >= at] of one vector, which starts on a cache line; pad bits are 0.
  void (*compare)(const float* x, int count, float at, std::uint64_t* bits);

  // Agreements of one vector of bits with each row of weights, which come in tiles of kTile rows as `tiled` arranges
  // them. Writes whole tiles of counts.
  void (*agreements)(const std::uint64_t* bits, const std::uint64_t* tiles, int inputs, int outputs, int* counts);

  // act(a (scale z) + b), z = 2 count - inputs, of one vector.
  void (*line)(const int* counts, int inputs, const float* a, const float* b, float scale, int outputs, int act,
               float* y);

  // act(weight x + bias) of one vector; `columns` is the weight matrix transposed, inputs x outputs.
  void (*vector)(const float* x, int inputs, const float* columns, const float* bias, int outputs, int act, float* y);
};

extern const Kernels kPortable;
#if defined(BIPOINTNET_X86)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
extern const Kernels kAvx512Popcount;  // the same with VPOPCNTDQ
#endif
#if defined(BIPOINTNET_NEON)
extern const Kernels kNeon;
#endif

}  // namespace bipointnet
