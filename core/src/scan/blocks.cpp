#include "scan/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "engine/cloud.h"
#include "format/text.h"
#include "scan/shuffle.h"

namespace bipointnet::scan {
namespace {

using Kind = BlockChannel::Kind;

constexpr float kWidest = 1000;  // blocks; a wider scan is probably in other units
constexpr std::size_t kOutliers = 20;  // one in so many points of a cell may lie below the ground
constexpr std::size_t kBefore = 2, kBehind = 3;  // the cells around a block in which its ground is sought

std::size_t cells_along(float extent, float cell) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(extent / cell)));
}

// The last cell includes its far edge; otherwise points on the edge would need a cell of their own.
std::size_t cell_of(float coordinate, float cell, std::size_t cells) {
  return std::min(static_cast<std::size_t>(coordinate / cell), cells - 1);
}

// The minimum of each cell and its neighbors from kBefore cells before it to kBehind cells behind it, along one axis.
std::vector<float> minima(const std::vector<float>& grid, std::size_t cells, std::size_t stride) {
  std::vector<float> found(grid);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const std::size_t at = i / stride % cells;
    const std::size_t first = i - std::min(at, kBefore) * stride, last = i + std::min(cells - 1 - at, kBehind) * stride;
    for (std::size_t other = first; other <= last; other += stride) found[i] = std::min(found[i], grid[other]);
  }
  return found;
}

}  // namespace

Columns::Columns(const BlockLayout& layout, const float* xyz, const float* features, std::size_t count)
    : layout_(layout), xyz_(3 * count), features_(features), feature_count_(layout.features().size()) {
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
  if (!(widest <= kWidest * layout.side)) {
    throw InputError("a scan " + printed(double{widest}) + " m wide, expected at most " +
                     printed(double{kWidest * layout.side}) + " m; scale it to meters, or cut it");
  }
  const float cell = layout.side / 2;
  across_ = cells_along(size_[0], cell);
  along_ = cells_along(size_[1], cell);
  starts_.resize(across_ * along_ + 1);
  std::vector<std::uint32_t> cells(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t x = cell_of(xyz_[3 * i], cell, across_), y = cell_of(xyz_[3 * i + 1], cell, along_);
    cells[i] = static_cast<std::uint32_t>(x * along_ + y);
    ++starts_[cells[i] + 1];
  }
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
  order_.resize(count);
  for (std::size_t i = 0; i < count; ++i) order_[next[cells[i]]++] = static_cast<std::uint32_t>(i);
  if (layout.has_height()) find_ground();
}

void Columns::find_ground() {
  ground_.assign(across_ * along_, std::numeric_limits<float>::infinity());
  std::vector<float> heights;
  for (std::size_t cell = 0; cell < ground_.size(); ++cell) {
    heights.clear();
    for (std::size_t i = starts_[cell]; i < starts_[cell + 1]; ++i) heights.push_back(xyz_[3 * order_[i] + 2]);
    if (heights.empty()) continue;
    const auto rank = heights.begin() + static_cast<std::ptrdiff_t>(heights.size() / kOutliers);
    std::nth_element(heights.begin(), rank, heights.end());
    ground_[cell] = *rank;
  }
  ground_ = minima(minima(ground_, across_, along_), along_, 1);
}

void Columns::fill(const Block& block, float* channels) const {
  std::array<float, 3> size{};
  for (std::size_t axis = 0; axis < 3; ++axis) size[axis] = size_[axis] > 0 ? size_[axis] : 1;
  for (const std::size_t index : block.index) {
    const float* xyz = &xyz_[3 * index];
    const float* feature = features_ + feature_count_ * index;
    for (const BlockChannel& channel : layout_.channels) {
      switch (channel.kind) {
        // Three steps, so that the minimum is exactly -0.5.
        case Kind::x: *channels++ = (xyz[0] - block.lowest[0]) / layout_.side - 0.5F; break;
        case Kind::y: *channels++ = (xyz[1] - block.lowest[1]) / layout_.side - 0.5F; break;
        case Kind::z: *channels++ = xyz[2] / layout_.side; break;
        case Kind::height: *channels++ = (xyz[2] - block.ground) / layout_.side; break;
        case Kind::share_x: *channels++ = xyz[0] / size[0]; break;
        case Kind::share_y: *channels++ = xyz[1] / size[1]; break;
        case Kind::share_z: *channels++ = xyz[2] / size[2]; break;
        case Kind::feature: *channels++ = std::clamp(*feature++ / channel.scale, -1.0F, 1.0F); break;
      }
    }
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
  ground_ = columns_.ground_.empty() ? 0 : columns_.ground_[corner];
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
  block.ground = ground_;
  block.votes = std::min(points_, inside_.size() - done_);
  block.index.resize(points_);
  for (std::size_t i = 0; i < points_; ++i) block.index[i] = inside_[(done_ + i) % inside_.size()];
  done_ += points_;
  return true;
}

}  // namespace bipointnet::scan
