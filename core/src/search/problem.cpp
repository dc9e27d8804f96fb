#include "search/problem.h"

#include <cstring>

namespace bipointnet::search {
namespace {

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

}  // namespace

Problem::Problem(Points& points_, Rows centers_)
    : points(points_), center_count(centers_.count), same(points_.are(centers_)) {
  if (!same) centers = points.grid.places(centers_, points.stride);
}

double Problem::square(std::int64_t key) const { return from_bits(static_cast<std::uint64_t>(key) & ~points.room); }

double Problem::most(double square) const { return from_bits(to_bits(square) | points.room); }

std::int64_t Problem::key(double square, std::size_t label) const {
  return static_cast<std::int64_t>((to_bits(square) & ~points.room) | label);
}

}  // namespace bipointnet::search
