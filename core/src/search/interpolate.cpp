#include <algorithm>

#include "search/nearest_keys.h"

namespace bipointnet::search {
namespace {

constexpr std::size_t kThree = 3;

// The weight of a point at the squared distance `square`; `least` is that of the nearest one.
float weight(float square, float least, Guard guard, float epsilon) {
  switch (guard) {
    case Guard::limit: return square > 0 ? least / square : 1.0f;
    case Guard::add: return 1.0f / (square + epsilon);
    case Guard::clamp: break;
  }
  return 1.0f / (square < epsilon ? epsilon : square);
}

}  // namespace

void Searches::interpolate(Rows centers, Rows points, Rows values, Guard guard, float epsilon, float* results) {
  Points& known = prepare(points, centers);
  known.rank(points);
  const Problem problem(known, centers);
  const std::size_t wanted = std::min(kThree, points.count), channels = values.channels;
  const double area = known.grid.step() * known.grid.step();
  nearest_keys(kernels_, problem, wanted, threads_, [&](std::size_t center, const std::int64_t* keys) {
    float weights[kThree] = {}, squares[kThree];
    const float* rows[kThree];
    for (std::size_t j = 0; j < kThree; ++j) {
      const std::int64_t key = keys[j < wanted ? j : 0];
      rows[j] = values.numbers + known.order[problem.label(key)] * channels;
      squares[j] = static_cast<float>(problem.square(key) * area);
      if (j < wanted) weights[j] = weight(squares[j], squares[0], guard, epsilon);
    }
    const float sum = weights[0] + weights[1] + weights[2];
    for (float& w : weights) w /= sum;
    float* result = results + center * channels;
    for (std::size_t c = 0; c < channels; ++c) {
      result[c] = weights[0] * rows[0][c] + weights[1] * rows[1][c] + weights[2] * rows[2][c];
    }
  });
}

}  // namespace bipointnet::search
