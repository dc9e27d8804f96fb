// Faces of meshes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet::clouds {

// Cuts polygons into fans: the corners a, b, c, d give the triangles (a, b, c) and (a, c, d).
class Fans {
 public:
  explicit Fans(std::vector<std::int64_t>& faces) : faces_(faces) {}

  void begin() { corners_ = 0; }

  void add(std::int64_t corner) {
    if (corners_ == 0) first_ = corner;
    if (corners_ >= 2) faces_.insert(faces_.end(), {first_, last_, corner});
    last_ = corner;
    ++corners_;
  }

  std::size_t corners() const { return corners_; }

 private:
  std::vector<std::int64_t>& faces_;
  std::int64_t first_ = 0, last_ = 0;
  std::size_t corners_ = 0;
};

}  // namespace bipointnet::clouds
