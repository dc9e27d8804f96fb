// The kernels, written once over two small types that every file of an instruction set defines before it includes this file, inside
// its anonymous namespace:
//
//   Bits    a register of kLanes bits: load, store, zero, &, ^, complement, add (a full adder), any
//   Floats  a register of floats: kWidth, kTogether and kRows (how many of points, and how many outputs for each of them,
//           there is room for at once), load, store, of_bytes, all, mul, plus, larger (a > b ? a : b), smaller (a < b ? a
//           : b), at_least (a mask, one bit a number), fused (plus a product that is not rounded), kFuses (whether that is
//           one instruction)
//   ones    the number of bits that are set in a word
//   spread  a byte a point of up to eight slices, the first one in its lowest bit
//
// No function of the standard library is used here: an inline function compiled for one instruction set could be the
// copy that the linker keeps for all.

constexpr int kWords = kLanes / 64;
constexpr int kSliceBytes = kLanes / 8;

// Slices of zeros and of ones, to be looked up by a bit.
alignas(64) constexpr std::uint64_t kAll[2][8] = {
    {0, 0, 0, 0, 0, 0, 0, 0},
    {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull},
};

#include "kernels/body_floats.h"
#include "kernels/body_slices.h"
