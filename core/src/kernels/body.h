// The kernels, written once over two small types. The file of each instruction set defines these types in its anonymous
// namespace and then includes this file:
//
//   Bits             a register of kLanes bits: load, store, zero, &, ^, complement, full_add (a full adder), any;
//                    kMostParts: how many equal parts load_parts can load from different addresses (1: there is no such
//                    function); store_part stores the first of these parts; any_in_parts has one bit per part.
//                    kOneCopy: whether a longer table of carries replaces the second copy of the weights, where memory
//                    matters more than the first-level cache
//                    kSplitsTrees: whether loads of one half of a long sum stay behind the other half. Else GCC for ARM
//                    loads more than the registers hold
//                    kPairsTrees: whether a pool counts two outputs at once, which hides latency but needs more registers
//   Floats           a register of floats: kWidth (floats per register); kPointRegs and kRows (a tile of a matrix
//                    product is kPointRegs registers of points times kRows outputs); load and store (aligned),
//                    load_any and store_any, from_bytes,
//                    broadcast, mul, add, max (a > b ? a : b), min (a < b ? a : b), ge_mask (a >= b, one bit per
//                    float), fma (adds a product that is not rounded), kHasFma (whether that is one instruction)
//   Doubles          a register of doubles: kWidth; load, store, broadcast, add, sub, mul, max, min, as above; fma (may
//                    round the product or not); le_mask and gt_mask (a <= b, a > b, one bit per double); pow2 (2^v of
//                    integers from -1022 to 1023)
//   Keys             a register of 64-bit integers: kWidth; load (at any address), store, broadcast, add_less (adds 1
//                    where a < b)
//   Ints             a register of 32-bit integers: kWidth; kRows (rows of a tile of coarse distances); load, store,
//                    broadcast, add, sub, le_mask, as above; add_products (adds the sum of the products of the lower
//                    and of the upper 16 bits)
//   popcount         the number of bits set in a word
//   slices_to_bytes  up to eight slices to one byte per point; the first slice becomes the lowest bit
//   spread_to, any_in_groups, none_in_groups  a bit per group to its lanes; whether a group has a 1, or none
//   transpose_square, gather_square           kSquare x kSquare floats, from rows or from rows with given numbers
//   transpose_bytes                           kByteSquare x kByteSquare bytes
//   append_keys, move_below                   keys of the points within a limit; keys below a limit to the front
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
#include "kernels/body_features.h"
#include "kernels/body_search.h"
#include "kernels/body_slices.h"
#include "kernels/body_counts.h"
#include "kernels/body_elements.h"
#include "kernels/body_groups.h"

// The table of the functions above. Every member is named, so a new kernel is added here and in kernels.h only.
constexpr Kernels make_kernels(const char* name) {
  Kernels kernels{};
  kernels.name = name;
  kernels.lanes = kLanes;
  kernels.one_copy = Bits::kOneCopy;
  kernels.dense_signs = dense_signs;
  kernels.dense = dense;
  kernels.mean_abs = mean_abs;
  kernels.bilinear = bilinear;
  kernels.bilinear_pool = bilinear_pool;
  kernels.bilinear_and_pool = bilinear_and_pool;
  kernels.bilinear_float = bilinear_float;
  kernels.bilinear_float_max = bilinear_float_max;
  kernels.bilinear_counts = bilinear_counts;
  kernels.elements_of_counts = elements_of_counts;
  kernels.update_max = update_max;
  kernels.compare = compare;
  kernels.agreements = agreements;
  kernels.bilinear_pool_rows = bilinear_pool_rows;
  kernels.few_rows = 16;
  kernels.affine = affine;
  kernels.dense_vector = dense_vector;
  kernels.binary = binary;
  kernels.line = line;
  kernels.scale = scale;
  kernels.function = function;
  kernels.bilinear_pool_groups = bilinear_pool_groups;
  kernels.bilinear_pool_alike = bilinear_pool_alike;
  kernels.bilinear_max_counts = bilinear_max_counts;
  kernels.max_group = max_group;
  kernels.transpose_bits = transpose_bits;
  kernels.transpose_floats = transpose_floats;
  kernels.gather_floats = gather_floats;
  kernels.outer_sums = outer_sums;
  kernels.mix_slots = mix_slots;
  kernels.slot_signs = slot_signs;
  kernels.difference_signs = difference_signs;
  kernels.search = make_search_kernels();
  return kernels;
}
