// Takes one block of points through operations of a pass.
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
  // Of `state` it writes blocks of kept values, which have room for them, and the trace.
  BlockRunner(const Network& network, const Plan& plan, const Kernels& kernels, State& state, Scratch& scratch,
              Pooled& pooled);

  // The operations from `from` to `to`, both included, on the block in scratch.floats or scratch.bits. It is number
  // `block` of its pass and holds `valid` points.
  void run(std::size_t from, std::size_t to, std::size_t block, std::size_t valid);

  // Where the bits are that it left.
  const std::uint64_t* bits() const { return bits_; }

 private:
  bool then_sign(std::size_t index, std::size_t to) const;
  std::uint64_t* room_for_bits(std::size_t index, std::size_t to);
  std::uint64_t* kept_block(int number);
  void take_bits(std::size_t channels, float at, std::uint64_t* slices);
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
  Scratch& scratch_;
  Pooled& pooled_;
  std::size_t lanes_, width_;
  std::size_t block_ = 0, valid_ = 0;
  const std::uint64_t* bits_ = nullptr;  // the current value, where it is one of bits
};

}  // namespace bipointnet
