#include "search/blocks.h"

#include <algorithm>
#include <limits>

#include "search/order.h"

namespace bipointnet::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kSize = kBlockPoints, kPad = kDoublePad;

}  // namespace

Blocks::Blocks(const Aligned<double>& places, std::size_t channels, std::size_t row, int bits)
    : order_(along_curve(places, channels, row, bits)) {
  const std::size_t blocks = (count() + kSize - 1) / kSize, stride = (blocks + kPad - 1) / kPad * kPad;
  places_.assign(checked_product(blocks * kSize, channels), kInfinity);
  low_.assign(checked_product(stride, channels), kInfinity);
  high_.assign(low_.size(), -kInfinity);
  for (std::size_t i = 0; i < count(); ++i) {
    const std::size_t block = i / kSize;
    const double* from = places.data() + order_[i] * row;
    double* to = places_.data() + block * channels * kSize + i % kSize;
    for (std::size_t c = 0; c < channels; ++c) {
      to[c * kSize] = from[c];
      double &low = low_[c * stride + block], &high = high_[c * stride + block];
      low = std::min(low, from[c]);
      high = std::max(high, from[c]);
    }
  }
  points_ = {static_cast<int>(channels), static_cast<int>(blocks), static_cast<int>(stride),
             places_.data(),             low_.data(),              high_.data()};
}

Labels Blocks::ranks(const std::vector<std::uint32_t>& by_rank) const {
  Labels of_index(count()), labels(padded());
  for (std::size_t rank = 0; rank < count(); ++rank) of_index[by_rank[rank]] = static_cast<std::uint32_t>(rank);
  for (std::size_t i = 0; i < count(); ++i) labels[i] = of_index[order_[i]];
  return labels;
}

Labels Blocks::indices() const {
  Labels labels = order_;
  labels.resize(padded());
  return labels;
}

}  // namespace bipointnet::search
