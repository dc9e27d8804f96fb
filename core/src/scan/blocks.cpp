#include "scan/blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "engine/cloud.h"
#include "scan/shuffle.h"

namespace bipointnet::scan {
namespace {

constexpr float kCell = 0.5F;  // so that both a block and the step between overlapping blocks are whole cells
constexpr float kHalfSide = 0.5F;
constexpr float kWidest = 1000;  // meters; a wider scan is probably in other units

std::size_t cells_along(float extent) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(extent / kCell)));
}

// The last cell includes its far edge; otherwise points on the edge would need a cell of their own.
std::size_t cell_of(float coordinate, std::size_t cells) {
  return std::min(static_cast<std::size_t>(coordinate / kCell), cells - 1);
}

}  // namespace

Columns::Columns(const float* xyz, const float* rgb, std::size_t count) : xyz_(3 * count), rgb_(rgb) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    float low = xyz[axis];
    for (std::size_t i = 0; i < count; ++i) low = std::min(low, xyz[3 * i + axis]);
    for (std::size_t i = 0; i < count; ++i) {
      const auto distance = static_cast<float>(double{xyz[3 * i + axis]} - double{low});
      xyz_[3 * i + axis] = distance;
      size_[axis] = std::max(size_[axis], distance);
    }
  }
  const float widest = *std::max_element(size_.begin(), size_.end());
  if (!(widest <= kWidest)) {
    throw InputError("a scan " + std::to_string(std::llround(widest)) +
                     " m wide, expected at most 1000 m; scale it to meters, or cut it");
  }
  across_ = cells_along(size_[0]);
  along_ = cells_along(size_[1]);
  starts_.resize(across_ * along_ + 1);
  std::vector<std::uint32_t> cells(count);
  for (std::size_t i = 0; i < count; ++i) {
    cells[i] = static_cast<std::uint32_t>(cell_of(xyz_[3 * i], across_) * along_ + cell_of(xyz_[3 * i + 1], along_));
    ++starts_[cells[i] + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
  order_.resize(count);
  for (std::size_t i = 0; i < count; ++i) order_[next[cells[i]]++] = static_cast<std::uint32_t>(i);
}

void Columns::fill(const Block& block, float* channels) const {
  std::array<float, 3> scale{};
  for (std::size_t axis = 0; axis < 3; ++axis) scale[axis] = size_[axis] > 0 ? size_[axis] : 1;
  for (const std::size_t index : block.index) {
    const float* xyz = &xyz_[3 * index];
    *channels++ = (xyz[0] - block.lowest[0]) - kHalfSide;  // two steps, so that the minimum is exactly -0.5
    *channels++ = (xyz[1] - block.lowest[1]) - kHalfSide;
    *channels++ = xyz[2];
    if (rgb_ != nullptr) channels = std::copy_n(rgb_ + 3 * index, 3, channels);
    for (std::size_t axis = 0; axis < 3; ++axis) *channels++ = xyz[axis] / scale[axis];
  }
}

Cover::Cover(const Columns& columns, std::size_t points)
    : columns_(columns), points_(points), corners_(columns.across_ * columns.along_) {
  // A cell is in the block that begins there and in those that begin one cell before. No block crosses an edge.
  const std::size_t last_x = std::max<std::size_t>(columns.across_, 2) - 2;
  const std::size_t last_y = std::max<std::size_t>(columns.along_, 2) - 2;
  for (std::size_t cell = 0; cell < corners_.size(); ++cell) {
    if (columns.starts_[cell] == columns.starts_[cell + 1]) continue;
    const std::size_t x = cell / columns.along_, y = cell % columns.along_;
    for (const std::size_t corner_x : {std::min(x, last_x), std::min(x - (x > 0), last_x)}) {
      for (const std::size_t corner_y : {std::min(y, last_y), std::min(y - (y > 0), last_y)}) {
        corners_[corner_x * columns.along_ + corner_y] = true;
      }
    }
  }
}

void Cover::take_column(std::size_t corner) {
  const std::size_t along = columns_.along_, x = corner / along, y = corner % along;
  const std::size_t last_x = std::min(x + 1, columns_.across_ - 1), last_y = std::min(y + 1, along - 1);
  inside_.clear();
  for (std::size_t row = x; row <= last_x; ++row) {
    const auto from = static_cast<std::ptrdiff_t>(columns_.starts_[row * along + y]);
    const auto to = static_cast<std::ptrdiff_t>(columns_.starts_[row * along + last_y + 1]);
    inside_.insert(inside_.end(), columns_.order_.begin() + from, columns_.order_.begin() + to);
  }
  done_ = 0;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    lowest_[axis] = columns_.size_[axis];
    for (const std::size_t index : inside_) lowest_[axis] = std::min(lowest_[axis], columns_.xyz_[3 * index + axis]);
  }
  shuffle(inside_);
}

bool Cover::next(Block& block) {
  while (done_ >= inside_.size()) {
    while (corner_ < corners_.size() && !corners_[corner_]) ++corner_;
    if (corner_ == corners_.size()) return false;
    take_column(corner_++);
  }
  block.lowest = lowest_;
  block.votes = std::min(points_, inside_.size() - done_);
  block.index.resize(points_);
  for (std::size_t i = 0; i < points_; ++i) block.index[i] = inside_[(done_ + i) % inside_.size()];
  done_ += points_;
  return true;
}

}  // namespace bipointnet::scan
