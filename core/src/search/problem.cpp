#include "search/problem.h"

#include <cstring>

#include "search/order.h"

namespace bipointnet::search {
namespace {

// The largest number of as many bits as n - 1 has.
std::uint64_t bits_below(std::size_t n) {
  std::uint64_t room = 0;
  while (room < n - 1) room = 2 * room + 1;
  return room;
}

std::uint64_t to_bits(double number) {
  std::uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

double from_bits(std::uint64_t bits) {
  double number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

bool equal(Rows a, Rows b) { return a.numbers == b.numbers && a.count == b.count && a.channels == b.channels; }

Grid checked_grid(Rows centers, Rows points, Rows ties) {
  check_numbers("point", points);
  if (!equal(centers, points)) check_numbers("center", centers);
  if (ties.numbers != nullptr && !equal(ties, points)) check_numbers("tie", ties);
  return Grid(points, centers);
}

}  // namespace

Problem::Problem(Rows centers_, Rows points_, Rows ties)
    : channels(points_.channels),
      center_count(centers_.count),
      point_count(points_.count),
      stride(many_channels() ? (channels + kDoublePad - 1) / kDoublePad * kDoublePad : channels),
      grid(checked_grid(centers_, points_, ties)),
      same(equal(centers_, points_)),
      points(grid.places(points_, stride)),
      room(bits_below(points_.count)) {
  if (!same) centers = grid.places(centers_, stride);
  order = ranked(ties, point_count);
}

double Problem::square(std::int64_t key) const { return from_bits(static_cast<std::uint64_t>(key) & ~room); }

double Problem::most(double square) const { return from_bits(to_bits(square) | room); }

std::int64_t Problem::key(double square, std::size_t rank) const {
  return static_cast<std::int64_t>((to_bits(square) & ~room) | rank);
}

}  // namespace bipointnet::search
