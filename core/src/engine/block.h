// Runs operations of a pass on one block of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cloud.h"
#include "engine/layout.h"
#include "engine/plan.h"
#include "engine/pooled.h"
#include "engine/state.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

class BlockRunner {
 public:
  // Writes the values that the pass stores, for which `state` has memory. `layout` is null for a pass over a set.
  // `pooled` has one entry per operation of the pass; those of pools over a set are used. All references must outlive
  // this object.
  BlockRunner(const Network& network, const Plan& plan, const Pass& pass, const Kernels& kernels, const Cloud& cloud,
              const GroupLayout* layout, State& state, BlockBuffers& buffers, std::vector<Pooled>& pooled);

  // Starts block number `block` of the pass. Of a set it has `valid` elements.
  void start(std::size_t block, std::size_t valid);

  // Runs the operations at the positions from `from` to `to` - 1 of the pass, then stores what is written element by
  // element, if all operations before the pools of codes have run.
  void run(std::size_t from, std::size_t to);

  // The bits of a value in this block.
  const std::uint64_t* bits(int value) const { return buffers_.bit_values[size(value)]; }
  const float* floats(int value) const { return buffers_.float_values[size(value)]; }

  // Whether a pool is faster on so many rows than on a block that holds them.
  bool few(std::size_t rows) const { return rows <= size(kernels_.few_rows); }

  // Runs the pool at a position of the pass on codes of a set, `lanes` codes from number `first` on.
  void pool_codes(std::size_t position, const CodeSet& rows, std::size_t first);

  // Runs the maximum of bits at a position of the pass on clouds that share the block: cloud i has `span` lanes from lane
  // i * span on, and the threshold for counts[i] elements. Returns the bits of each cloud.
  std::vector<std::uint64_t> pool_clouds(std::size_t position, std::size_t span, const std::vector<std::size_t>& counts);

  // Memory for the code, which the caller fills in, instead of running the operations that compute it.
  std::uint64_t* code_bits() { return bits_for(pass_.code); }

 private:
  const Value& value(int number) const { return network_.values[size(number)]; }
  std::size_t channels(int number) const { return size(value(number).channels); }
  float* floats_for(int number);
  std::uint64_t* bits_for(int number);

  // block_load.cpp
  void number_elements();
  void load_stored();
  void load(int number, const std::uint32_t* index, int to);
  void load_bits(int number, const std::uint32_t* index, int to);
  template <class Row>
  void put_rows(std::size_t channels, std::uint64_t* slices, const Row& row);
  void load_signs(int number, const Operation& sign);
  void difference_signs(const Operation& operation, const Operation& sign);
  void mixed_signs(const Operation& sign, std::size_t wide);
  void gather(const Operation& operation);
  void broadcast(const Operation& operation);
  void concat(const Operation& operation, const PreparedOperation& prepared);
  void slice(const Operation& operation);

  // block_elements.cpp
  void put_elements(int number, std::size_t first, std::size_t count, float* to, std::size_t stride);
  void count_agreements(const Operation& layer, const PreparedOperation& prepared);
  void put_counted(int number, const float* factors, std::size_t first, std::size_t count, float* to,
                   std::size_t stride);
  void mix(const Operation& operation, int sign, int flattened);
  void flatten_signs(const Operation& flatten, float at, std::size_t g, const float* mixed);
  void outer(const Operation& operation);
  void write(int number);

  // block.cpp
  void run(std::size_t position);
  void binary(const Operation& operation);
  void affine(const Operation& operation, const PreparedOperation& prepared);
  void dense(const Operation& operation, const PreparedOperation& prepared, int sign);
  void transform(const Operation& operation, std::size_t index, int sign);
  void transform_each(const Operation& operation);
  void binarize(const Operation& operation);
  void bilinear(const Operation& operation, const PreparedOperation& prepared, std::size_t index);
  void bilinear_float(const Operation& operation, const PreparedOperation& prepared);

  // block_pools.cpp
  void set_mask();
  void reduce_set(const Operation& operation, std::size_t index, std::size_t position);
  void max_floats_of_set(const Operation& operation, int counted, Pooled& pooled);
  void pool_bits_of_set(const Operation& operation, std::size_t index, Pooled& pooled);
  void reduce_groups(const Operation& operation, std::size_t index, std::size_t position);
  void pool_floats_of_groups(const Operation& operation, std::size_t index, int counted);
  float shift_of(std::size_t n);
  void count_largest(const Operation& layer, const PreparedOperation& prepared);
  void take_counted(const Operation& layer, const PreparedOperation& prepared, std::size_t g, float* largest);
  const Thresholds* alike_in_block(const Operation& operation, std::size_t index) const;
  void pool_bits_of_groups(const Operation& operation, std::size_t index);
  template <class Put>
  void put_fired(std::size_t outputs, std::size_t groups, std::size_t fields, const Put& put);
  void mean_bits_of_groups(const Operation& operation, std::size_t index);
  void second_result(const Operation& operation, const PreparedOperation& prepared);
  void flatten(const Operation& operation);
  std::size_t count_of(const Operation& operation, std::size_t index, std::size_t group) const;
  std::size_t group(std::size_t g) const { return layout_->group(place_->first + g); }
  std::size_t lane(std::size_t g) const { return place_->lane(g, width_); }
  bool continues() const { return place_->slot > 0; }
  std::size_t elements_here(std::size_t total) const;

  const Network& network_;
  const Plan& plan_;
  const Pass& pass_;
  const Kernels& kernels_;
  const Cloud& cloud_;
  const GroupLayout* layout_;
  State& state_;
  BlockBuffers& buffers_;
  std::vector<Pooled>& pooled_;
  std::size_t lanes_, width_;
  std::size_t block_ = 0, valid_ = 0;
  const GroupBlock* place_ = nullptr;
  std::size_t shift_for_ = 0;  // the n of shift_
  float shift_ = 0;
};

// Writes the bits of lanes as rows of words: channel k of lane i is bit k % 64 of words[i][k / 64]. Calls
// put(lane, word, bits) for all lanes and words of a row.
template <class Put>
void rows_of_slices(const Kernels& kernels, const std::uint64_t* slices, std::size_t channels, std::size_t width, const Put& put) {
  std::uint64_t square[64];
  for (std::size_t word = 0; word < width; ++word) {
    for (std::size_t first = 0; first < channels; first += 64) {
      for (std::size_t k = 0; k < 64; ++k) square[k] = first + k < channels ? slices[(first + k) * width + word] : 0;
      kernels.transpose_bits(square);
      for (std::size_t i = 0; i < 64; ++i) put(word * 64 + i, first / 64, square[i]);
    }
  }
}

}  // namespace bipointnet
