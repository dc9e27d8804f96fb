#include "search/points.h"

#include "search/order.h"

namespace bipointnet::search {
namespace {

// The largest number of as many bits as n - 1 has.
std::uint64_t bits_below(std::size_t n) {
  std::uint64_t room = 0;
  while (room < n - 1) room = 2 * room + 1;
  return room;
}

Rows checked(Rows points) {
  check_numbers("point", points);
  return points;
}

}  // namespace

Points::Points(Rows points, Rows centers)
    : channels(points.channels),
      count(points.count),
      stride(many_channels() ? (channels + kDoublePad - 1) / kDoublePad * kDoublePad : channels),
      grid(checked(points), points),
      room(bits_below(points.count)),
      rows_(points) {
  own_grid_ = serve(centers);
  if (!own_grid_) {
    check_numbers("center", centers);
    grid = Grid(points, centers);
  }
  places = grid.places(points, stride);
}

void Points::rank(Rows ties) {
  if (!order.empty() && same(ties, ties_)) return;
  if (ties.numbers != nullptr && !are(ties)) check_numbers("tie", ties);
  order = ranked(ties, count);
  ties_ = ties;
  ranks_.clear();
}

const Blocks& Points::blocks() {
  if (blocks_ == nullptr) blocks_ = std::make_unique<Blocks>(places, channels, stride, grid.bits());
  return *blocks_;
}

const Labels& Points::ranks() {
  if (ranks_.empty()) ranks_ = blocks().ranks(order);
  return ranks_;
}

}  // namespace bipointnet::search
