#include "scan/sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/aligned.h"
#include "scan/shuffle.h"

namespace bipointnet::scan {
namespace {

using Vector = std::array<double, 3>;

struct Triangle {
  Vector first, second, third;

  double area() const {
    const double ax = second[0] - first[0], ay = second[1] - first[1], az = second[2] - first[2];
    const double bx = third[0] - first[0], by = third[1] - first[1], bz = third[2] - first[2];
    const double x = ay * bz - az * by, y = az * bx - ax * bz, z = ax * by - ay * bx;
    return 0.5 * std::sqrt(x * x + y * y + z * z);
  }
};

Triangle triangle(const float* xyz, const std::int64_t* corners) {
  const auto corner = [&](std::size_t i) {
    const float* point = xyz + 3 * static_cast<std::size_t>(corners[i]);
    return Vector{double{point[0]}, double{point[1]}, double{point[2]}};
  };
  return {corner(0), corner(1), corner(2)};
}

}  // namespace

std::vector<float> sample_surface(const float* xyz, const std::vector<std::int64_t>& faces, std::size_t wanted) {
  std::vector<double> reach(faces.size() / 3);  // the total area up to each triangle
  double total = 0;
  for (std::size_t i = 0; i < reach.size(); ++i) reach[i] = total += triangle(xyz, &faces[3 * i]).area();
  std::vector<float> sample(checked_product(3, wanted));
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto found = std::upper_bound(reach.begin(), reach.end(), uniform(4 * i) * total);
    const auto chosen = std::min(static_cast<std::size_t>(found - reach.begin()), reach.size() - 1);
    const Triangle inside = triangle(xyz, &faces[3 * chosen]);
    // The part of a triangle up to a fraction t of the way from its first corner has t^2 of its area: hence the root.
    const double across = std::sqrt(uniform(4 * i + 1)), along = uniform(4 * i + 2);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double side = inside.second[axis] - inside.first[axis], edge = inside.third[axis] - inside.second[axis];
      sample[3 * i + axis] = static_cast<float>(inside.first[axis] + across * (side + along * edge));
    }
  }
  return sample;
}

}  // namespace bipointnet::scan
