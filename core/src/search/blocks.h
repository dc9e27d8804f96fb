// Points in small blocks of neighbors with their boxes, so that a search skips blocks that are too far away.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/aligned.h"
#include "kernels/search_kernels.h"

namespace bipointnet::search {

using Labels = std::vector<std::uint32_t>;  // one per position in the blocks

class Blocks {
 public:
  // `places` are rows of `stride` numbers from 0 to 2^bits, of which the first `channels` are used.
  Blocks(const Aligned<double>& places, std::size_t channels, std::size_t stride, int bits);

  const PointBlocks& points() const { return points_; }
  std::size_t count() const { return order_.size(); }
  std::size_t padded() const { return static_cast<std::size_t>(points_.blocks) * kBlockPoints; }

  // The points along a curve: position in the blocks -> index.
  const std::vector<std::uint32_t>& order() const { return order_; }

  // The rank and the index of the point at each position; `by_rank` has the index of each rank.
  Labels ranks(const std::vector<std::uint32_t>& by_rank) const;
  Labels indices() const;

 private:
  PointBlocks points_;
  std::vector<std::uint32_t> order_;
  Aligned<double> places_, low_, high_;
};

}  // namespace bipointnet::search
