// The table of functions that each instruction set provides.
//
// Data layout: points run along the bits. A block holds `lanes` points. One channel of a block is a slice: one bit per
// point, lanes / 64 words. Bits of a block are K slices; floats of a block are K rows of `lanes` floats. Lanes after
// the last point of a cloud hold arbitrary values; pooling masks them.
#pragma once

#include <cstdint>

#include "kernels/search_kernels.h"

namespace bipointnet {

// A bilinear layer in the form that the kernels read. engine/bitsliced.cpp builds it and derives the arithmetic.
struct BitslicedLayer {
  int inputs;
  int outputs;
  int pairs;   // ceil(inputs / 2)
  int levels;  // bits of the counter
  const std::uint8_t*
      offsets[2];               // 8 * (which of the eight entries of a pair is the carry), for an even and for an odd
                                // start; ordered by part, then output, then pair
  const std::uint64_t* odd;     // one bit per output: whether an odd number of its inputs are complemented
  const std::uint32_t* start;   // one value per output: the initial value of its counter
  const std::uint64_t* varies;  // one bit per output: whether it depends on the inputs
  const std::uint64_t* always;  // one bit per output: whether it is 1 for all inputs
};

// How a pool with one threshold T per group starts its counters: the initial value in the low bits, and these flags.
constexpr int kOddCode = 29;       // T is odd
constexpr int kAlwaysCode = 30;    // T <= 0
constexpr int kConstantCode = 31;  // T <= 0 or T > inputs: nothing depends on the inputs

constexpr int kMaxLevels = 15;
constexpr int kEntries = 8;  // carries per pair of inputs
constexpr int kMostEntries = kEntries + kEntries / 2;  // with those that are in the table twice, see Kernels::one_copy
constexpr int kTile = 8;     // rows of weights per tile

constexpr int kMostSlotSigns = 32;

// Inputs are counted in parts whose table of carries fits into the first-level cache. Between two parts the counters of
// a batch of outputs are kept in memory.
constexpr int kPartLevels = 7;
constexpr int kPart = 1 << kPartLevels;  // pairs per part
constexpr int kBatch = 512;              // outputs per batch

// The slices of memory that the functions on a block need for a layer: its table of carries and, if it has several
// parts, the counters of a batch; else those of one output.
constexpr int scratch_slices(int inputs, int outputs) {
  const int pairs = (inputs + 1) / 2, batch = outputs < kBatch ? outputs : kBatch;
  return (pairs < kPart ? pairs : kPart) * kMostEntries + (pairs > kPart ? batch : 1) * kMaxLevels;
}

// act: 0 none, 1 relu, 2 hardtanh, written with the minimum and maximum that processors have. `static`, so that every
// instruction set keeps its own copy.
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
  bool one_copy;  // whether BitslicedLayer::offsets[1] is not read: the weights take half the memory

  // Functions on a block. `scratch` is memory for scratch_slices() slices. Inputs and outputs do not overlap.

  // Slices of [sum over k of weight[m][k] x[k] >= bound[m]]. norms[m] is approximately the sum over k of
  // |weight[m][k]|; null is allowed and slower.
  void (*dense_signs)(const float* x, int inputs, const float* weight, const float* bound, const float* norms,
                      int outputs, std::uint64_t* slices);

  // Rows of act(weight x + bias).
  void (*dense)(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows);

  // The mean over k of |x[k]|, one float per point.
  void (*mean_abs)(const float* x, int inputs, float* means);

  // Slices of [agreements >= threshold].
  void (*bilinear)(const std::uint64_t* slices, const BitslicedLayer& layer, std::uint64_t* scratch,
                   std::uint64_t* out);

  // Sets bit m of `fired` if some point of the block has agreements >= threshold. Skips bits that are already set.
  void (*bilinear_pool)(const std::uint64_t* slices, const BitslicedLayer& layer, const std::uint64_t* mask,
                        std::uint64_t* scratch, std::uint64_t* fired);

  // The same for `count` rows of bits instead of a block, with the weights in tiles as for agreements(). Faster for at most
  // `few_rows` rows.
  void (*bilinear_pool_rows)(const std::uint64_t* rows, int count, const BitslicedLayer& layer,
                             const std::uint64_t* tiles, std::uint64_t* fired);
  int few_rows;

  // bilinear() and bilinear_pool() for one matrix of weights with two sets of thresholds.
  void (*bilinear_and_pool)(const std::uint64_t* slices, const BitslicedLayer& layer, const BitslicedLayer& pool,
                            const std::uint64_t* mask, std::uint64_t* scratch, std::uint64_t* out,
                            std::uint64_t* fired);

  // Rows of act(a (scale z) + b), z = 2 agreements - inputs, for a layer whose counters start at 0. `scales` holds one
  // float per point; null means 1 at every point.
  void (*bilinear_float)(const std::uint64_t* slices, const BitslicedLayer& layer, const float* a, const float* b,
                         const float* scales, int act, std::uint64_t* scratch, float* rows);

  // largest[m] = max(largest[m], row m of bilinear_float() at the first `points` points). Every scale z must be finite.
  void (*bilinear_float_max)(const std::uint64_t* slices, const BitslicedLayer& layer, const float* a, const float* b,
                             const float* scales, int act, int points, std::uint64_t* scratch, float* largest);

  // The layer of bilinear_float() without its line: rows of bytes with agreements = low + 256 high. `high` is written if the counter
  // has more than 7 bits.
  void (*bilinear_counts)(const std::uint64_t* slices, const BitslicedLayer& layer, std::uint64_t* scratch,
                          std::uint8_t* low, std::uint8_t* high);

  // largest[k] = max(largest[k], x[k] at the first `points` points).
  void (*update_max)(const float* x, int count, int points, float* largest);

  // Functions on one vector.

  // Bits of [x >= at]. Pad bits are 0.
  void (*compare)(const float* x, int count, float at, std::uint64_t* bits);

  // Bits of [a - b >= 0]. Pad bits are 0.
  void (*difference_signs)(const float* a, const float* b, int count, std::uint64_t* bits);

  // Agreements of one vector of bits with each row of weights. The rows come in tiles of kTile rows, as tiled() in
  // engine/bitsliced.h arranges them. Writes whole tiles of counts.
  void (*agreements)(const std::uint64_t* bits, const std::uint64_t* tiles, int inputs, int outputs, int* counts);

  // act(a (scale z) + b), z = 2 count - inputs.
  void (*affine)(const int* counts, int inputs, const float* a, const float* b, float scale, int outputs, int act,
                 float* y);

  // act(weight x + bias). `columns` is the weight matrix transposed, inputs x outputs.
  void (*dense_vector)(const float* x, int inputs, const float* columns, const float* bias, int outputs, int act,
                       float* y);

  // Functions on numbers in any layout.

  // a + b, a - b, a * b or a / b, for op 0 to 3.
  void (*binary)(int op, const float* a, const float* b, int count, float* out);

  // act(a x + b).
  void (*line)(const float* x, float a, float b, int act, int count, float* out);

  // Multiplies each number.
  void (*scale)(float* x, float by, int count);

  // A Function of each number; `slope` is for leaky_relu.
  void (*function)(int which, float slope, const float* x, int count, float* out);

  // Functions on a block of groups. A group has `field` successive lanes, from 8 to 64, in one word; a word has
  // 64 / field groups. engine/layout.h says which lanes are those of group g. The lanes after the last element of a group
  // repeat elements of the group.

  // fired[m]: bit g is 1 if some lane of group g has agreements >= its threshold for output m. Group g has the code
  // codes[m * groups + g], an initial value of the counter with flags.
  void (*bilinear_pool_groups)(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                               const std::uint32_t* codes, std::uint64_t* scratch, std::uint64_t* fired);

  // The same where all groups have the thresholds of the layer. `out` is memory for one slice per output.
  void (*bilinear_pool_alike)(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                              std::uint64_t* scratch, std::uint64_t* out, std::uint64_t* fired);

  // counts[g * stride + m]: the largest number of agreements of a lane of group g with row m, for a layer whose counters
  // start at 0.
  void (*bilinear_max_counts)(const std::uint64_t* slices, const BitslicedLayer& layer, int field,
                              std::uint64_t* scratch, int* counts, int stride);

  // largest[k] = max(largest[k], x[k] in the lanes of a group), which may be any number of lanes.
  void (*max_group)(const float* rows, int channels, int elements, float* largest);

  // Transposes a 64 x 64 matrix of bits in place: bit j of word i becomes bit i of word j.
  void (*transpose_bits)(std::uint64_t* words);

  // Functions on elements and rows. An element has its channels next to each other.

  // to[c * to_stride + r] = from[r * from_stride + c].
  void (*transpose_floats)(const float* from, int from_stride, int rows, int columns, float* to, int to_stride);

  // Rows of a block: lane i of row c is channel c of element index[i].
  void (*gather_floats)(const float* elements, int channels, const std::uint32_t* index, float* rows);

  // Elements of act(a z + b), z = 2 (low + 256 high) - inputs, times factors[i]: channel m of lane i is at
  // to[i * stride + m]. `low` and `high` are rows of bytes of a block, from a lane on that is a multiple of 8. `high` may
  // be null for 0, `factors` for 1.
  void (*elements_of_counts)(const std::uint8_t* low, const std::uint8_t* high, int count, int outputs, int inputs,
                             const float* a, const float* b, const float* factors, int act, float* to, int stride);

  // sums[a * channels + c] = sum over e of w[a][e] x[e][c], in order, where w is rows of a block and x elements; continues
  // the given sums unless `first`.
  void (*outer_sums)(const float* w, int weights, const float* x, int channels, int elements, bool first, float* sums);

  // out[i][c] = sum over j < slots of matrix[i * slots + j] x[j][c], in order, for i < rows.
  void (*mix_slots)(const float* matrix, int slots, int rows, const float* x, int channels, float* out);

  // signs[c]: bit j is [x[j][c] >= at], for up to kMostSlotSigns slots.
  void (*slot_signs)(const float* x, int slots, int channels, float at, std::uint32_t* signs);

  SearchKernels search;
};

extern const Kernels kPortable;
#if defined(BIPOINTNET_X86)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
extern const Kernels kAvx512Popcount;  // kAvx512 with VPOPCNTDQ
#endif
#if defined(BIPOINTNET_NEON)
extern const Kernels kNeon;
#endif
#if defined(BIPOINTNET_WASM)
extern const Kernels kWasm;
#endif

}  // namespace bipointnet
