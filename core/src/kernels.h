// The table of functions that an instruction set fills in.
//
// Points lie across the bits: a block holds `lanes` points, and one channel of a block is a slice of `lanes` bits, that
// is lanes / 64 words. Bits of a block are K slices, floats of a block K rows of `lanes` numbers. Lanes past the last
// point of a cloud hold anything; whoever pools masks them.
#pragma once

#include <cstdint>

namespace bipointnet {

// A bilinear layer, prepared for slices in sliced.cpp, where its arithmetic is explained.
struct Sliced {
  int inputs;
  int outputs;
  int pairs;                       // ceil(inputs / 2)
  int levels;                      // bits of the counter
  const std::uint8_t* offsets[2];  // outputs x pairs: which of a pair's eight entries is the carry, times 8; for an even
                                   // and for an odd start
  const std::uint32_t* start;      // outputs: what counting starts with
  const std::uint64_t* varies;     // a bit an output: whether it depends on the inputs
  const std::uint64_t* always;     // a bit an output: whether it fires whatever they are
};

constexpr int kMostLevels = 15;
constexpr int kEntries = 8;
constexpr int kTile = 8;

// act: 0 none, 1 relu, 2 hardtanh. Static, as every instruction set must keep its own copy.
static inline float activate(float x, int act) {
  if (act == 1) return x > 0 ? x : 0.0f;
  if (act == 2) return x < -1 ? -1.0f : (x > 1 ? 1.0f : x);
  return x;
}

struct Kernels {
  const char* name;
  int lanes;

  // Slices of [sum over k of weight[m][k] x[k] >= bound[m]].
  void (*signs)(const float* x, int inputs, const float* weight, const float* bound, int outputs, std::uint64_t* slices);

  // Rows of act(weight x + bias).
  void (*dense)(const float* x, int inputs, const float* weight, const float* bias, int outputs, int act, float* rows);

  // The table of carries of a block: pairs x 8 slices.
  void (*carries)(const std::uint64_t* slices, int inputs, std::uint64_t* table);

  // Slices of [agreements >= threshold].
  void (*layer)(const std::uint64_t* table, const Sliced& layer, std::uint64_t* slices);

  // Sets bit m of `fired` where some point of the block has agreements >= threshold; leaves out what is set already.
  void (*pool)(const std::uint64_t* table, const Sliced& layer, const std::uint64_t* mask, std::uint64_t* fired);

  // Bits of [x >= at] of one vector, which starts on a cache line; pad bits are 0.
  void (*compare)(const float* x, int count, float at, std::uint64_t* bits);

  // largest = max(largest, x).
  void (*raise)(const float* x, int count, float* largest);

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
