// The kernels, written once over two small types. The file of each instruction set defines these types in its anonymous
// namespace and then includes this file:
//
//   Bits             a register of kLanes bits: load, store, zero, &, ^, complement, full_add (a full adder), any
//   Floats           a register of floats: kWidth (floats per register); kPointRegs and kRows (a tile of a matrix
//                    product is kPointRegs registers of points times kRows outputs); load, store, from_bytes,
//                    broadcast, mul, add, max (a > b ? a : b), min (a < b ? a : b), ge_mask (a >= b, one bit per
//                    float), fma (adds a product that is not rounded), kHasFma (whether that is one instruction)
//   popcount         the number of bits set in a word
//   slices_to_bytes  up to eight slices to one byte per point; the first slice becomes the lowest bit
//
// No function of the standard library is used here: an inline function compiled for one instruction set could become
// the copy that the linker keeps for all of them.

constexpr int kWords = kLanes / 64;
constexpr int kSliceBytes = kLanes / 8;

// Slices of zeros and of ones, indexed by a bit.
alignas(64) constexpr std::uint64_t kConstantSlice[2][8] = {
    {0, 0, 0, 0, 0, 0, 0, 0},
    {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull},
};

#include "kernels/body_floats.h"
#include "kernels/body_slices.h"
