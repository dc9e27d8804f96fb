// Runs operations of a pass on one block of points.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "engine/pooled.h"
#include "engine/state.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

class BlockRunner {
 public:
  // Writes the kept values of its blocks, for which `state` has memory, and the trace.
  BlockRunner(const Network& network, const Plan& plan, const Kernels& kernels, State& state, BlockBuffers& buffers,
              Pooled& pooled);

  // Runs the operations `from` to `to`, inclusive, on the block in buffers.floats or buffers.bits. It is block number
  // `block` of the pass and has `valid` points.
  void run(std::size_t from, std::size_t to, std::size_t block, std::size_t valid);

  // The bits after the last operation.
  const std::uint64_t* bits() const { return bits_; }

 private:
  bool fuses_sign(std::size_t index, std::size_t to) const;
  std::uint64_t* output_bits(std::size_t index, std::size_t to);
  std::uint64_t* kept_block(int number);
  void binarize(std::size_t channels, float at, std::uint64_t* slices);
  void set_mask();
  void transform(const Layer& layer, std::uint64_t* signs);
  void dense(std::size_t index, std::uint64_t* signs);
  void join(std::size_t index);
  void bilinear(std::size_t index, std::uint64_t* out);
  void pool(std::size_t index);
  void pool_bits(std::size_t index);
  void record(std::size_t index);
  void record_joined(const Layer& layer, std::size_t point, std::vector<float>& numbers);

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  State& state_;
  BlockBuffers& buffers_;
  Pooled& pooled_;
  std::size_t lanes_, width_;
  std::size_t block_ = 0, valid_ = 0;
  const std::uint64_t* bits_ = nullptr;  // the current value, if it is bits
};

}  // namespace bipointnet
