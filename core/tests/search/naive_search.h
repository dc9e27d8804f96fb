// Neighbor searches written from docs/format.md, "Neighbors", as directly as possible. The tests compare
// core/src/search with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "search/search.h"

namespace bipointnet::naive {

using search::Groups;
using search::Rows;

// Places of points and centers on their common grid.
struct Grid {
  std::size_t channels;
  double step;
  std::vector<double> points, centers;

  Grid(Rows p, Rows c) : channels(p.channels) {
    const int q = (52 - static_cast<int>(std::ceil(std::log2(static_cast<double>(channels))))) / 2;
    std::vector<double> low(p.numbers, p.numbers + channels);
    double extent = std::ldexp(1.0, -126), size = std::ldexp(1.0, -150);
    const auto each = [&](const auto& work) {
      for (std::size_t i = 0; i < p.count * channels; ++i) work(double{p.numbers[i]}, i % channels);
      for (std::size_t i = 0; i < c.count * channels; ++i) work(double{c.numbers[i]}, i % channels);
    };
    each([&](double x, std::size_t channel) { low[channel] = std::min(low[channel], x); });
    each([&](double x, std::size_t channel) { extent = std::max(extent, x - low[channel]); });
    while (size <= extent) size *= 2;
    step = size / std::ldexp(1.0, q);
    const auto place = [&](double x, std::size_t channel) {
      return std::nearbyint((x - low[channel]) * (std::ldexp(1.0, q) / size));
    };
    for (std::size_t i = 0; i < p.count * channels; ++i) points.push_back(place(double{p.numbers[i]}, i % channels));
    for (std::size_t i = 0; i < c.count * channels; ++i) centers.push_back(place(double{c.numbers[i]}, i % channels));
  }

  double square(const double* a, const double* b) const {
    double sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
  }
};

inline std::vector<std::uint32_t> rank_order(Rows ties, std::size_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (ties.numbers == nullptr) return order;
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const float *x = ties.numbers + a * ties.channels, *y = ties.numbers + b * ties.channels;
    return std::lexicographical_compare(x, x + ties.channels, y, y + ties.channels);
  });
  return order;
}

struct Neighbor {
  std::uint64_t key;
  std::uint32_t index;
  double square;  // D'
};

// All points, nearest first, for each center.
class Distances {
 public:
  Distances(Rows centers, Rows points, Rows ties) : grid(points, centers), count_(points.count) {
    const std::vector<std::uint32_t> order = rank_order(ties, count_);
    for (std::size_t rank = 0; rank < count_; ++rank) index_.push_back(order[rank]);
    while ((std::uint64_t{1} << bits_) < count_) ++bits_;
  }

  std::vector<Neighbor> of(std::size_t center) const {
    std::vector<Neighbor> all;
    for (std::size_t rank = 0; rank < count_; ++rank) {
      const double* place = grid.points.data() + index_[rank] * grid.channels;
      const double square = grid.square(grid.centers.data() + center * grid.channels, place);
      std::uint64_t bits;
      std::memcpy(&bits, &square, sizeof bits);
      bits = bits >> bits_ << bits_;
      double cut;
      std::memcpy(&cut, &bits, sizeof cut);
      all.push_back({bits | rank, index_[rank], cut});
    }
    std::sort(all.begin(), all.end(), [](const Neighbor& a, const Neighbor& b) { return a.key < b.key; });
    return all;
  }

  Grid grid;

 private:
  std::size_t count_;
  int bits_ = 0;
  std::vector<std::uint32_t> index_;
};

// Appends a group: the neighbors, then copies of the first.
inline void append(Groups& groups, const std::vector<std::uint32_t>& neighbors) {
  for (std::size_t j = 0; j < groups.slots; ++j) groups.indices.push_back(neighbors[j < neighbors.size() ? j : 0]);
  groups.counts.push_back(static_cast<std::uint32_t>(neighbors.size()));
}

inline Groups nearest(Rows centers, Rows points, Rows ties, std::size_t slots, std::size_t dilation) {
  const Distances distances(centers, points, ties);
  Groups groups{slots, {}, {}};
  for (std::size_t i = 0; i < centers.count; ++i) {
    const std::vector<Neighbor> all = distances.of(i);
    std::vector<std::uint32_t> found;
    for (std::size_t j = 0; j < std::min(slots * dilation, points.count); j += dilation) found.push_back(all[j].index);
    append(groups, found);
  }
  return groups;
}

inline Groups ball(Rows centers, Rows points, Rows ties, std::size_t slots, double radius, Order order) {
  const Distances distances(centers, points, ties);
  const double area = distances.grid.step * distances.grid.step;
  Groups groups{slots, {}, {}};
  for (std::size_t i = 0; i < centers.count; ++i) {
    const std::vector<Neighbor> all = distances.of(i);
    std::vector<std::uint32_t> found;
    for (const Neighbor& neighbor : all) {
      const auto square = static_cast<float>(neighbor.square * area);
      if (square <= static_cast<float>(radius * radius)) found.push_back(neighbor.index);
    }
    if (order == Order::index) std::sort(found.begin(), found.end());
    if (found.empty()) found.push_back(all[0].index);
    if (found.size() > slots) found.resize(slots);
    append(groups, found);
  }
  return groups;
}

inline std::vector<std::uint32_t> farthest_points(Rows points, std::size_t count, Order order) {
  const bool by_index = order == Order::index;
  const Grid grid(points, Rows{});
  const std::vector<std::uint32_t> ranks = rank_order(by_index ? Rows{} : points, points.count);
  const auto place = [&](std::uint32_t i) { return grid.points.data() + i * grid.channels; };
  if (!by_index) count = std::min(count, points.count);
  std::vector<std::uint32_t> chosen;
  if (by_index) {
    chosen.push_back(0);
  } else {
    std::vector<double> centroid(grid.channels);
    for (std::size_t i = 0; i < grid.points.size(); ++i) centroid[i % grid.channels] += grid.points[i];
    for (double& x : centroid) x = std::nearbyint(x / static_cast<double>(points.count));
    std::uint32_t best = ranks[0];
    for (const std::uint32_t i : ranks) {
      if (grid.square(place(i), centroid.data()) > grid.square(place(best), centroid.data())) best = i;
    }
    chosen.push_back(best);
  }
  std::vector<double> gaps(points.count, INFINITY);
  while (chosen.size() < count) {
    for (std::uint32_t i = 0; i < points.count; ++i) {
      gaps[i] = std::min(gaps[i], grid.square(place(i), place(chosen.back())));
    }
    std::uint32_t best = ranks[0];
    for (const std::uint32_t i : ranks) {
      if (gaps[i] > gaps[best]) best = i;
    }
    if (gaps[best] == 0 && !by_index) break;
    chosen.push_back(best);
  }
  for (const std::uint32_t i : ranks) {
    if (chosen.size() < count && std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
  }
  return chosen;
}

inline double exponential(double x) {
  if (x < -708) return 0;
  const double k = std::nearbyint(x * 1.4426950408889634);
  const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  for (int i = 12; i >= 0; --i) {
    double factorial = 1;
    for (int j = 2; j <= i; ++j) factorial *= j;
    p = p * r + 1 / factorial;
  }
  return std::ldexp(p, static_cast<int>(k));
}

inline std::vector<float> density(Rows points, double bandwidth) {
  const Grid grid(points, Rows{});
  const double ratio = grid.step / bandwidth, t = ratio * ratio * -0.5;
  std::vector<float> densities;
  for (std::size_t i = 0; i < points.count; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < points.count; ++j) {
      const double square = grid.square(grid.points.data() + i * grid.channels, grid.points.data() + j * grid.channels);
      sum += std::nearbyint(exponential(square * t) * std::ldexp(1.0, 30));
    }
    const double divisor = std::ldexp(1.0, 30) * static_cast<double>(points.count) * bandwidth * 2.5066282746310002;
    densities.push_back(static_cast<float>(sum / divisor));
  }
  return densities;
}

inline std::vector<float> interpolate(Rows centers, Rows points, Rows values, Guard guard, float epsilon) {
  const Distances distances(centers, points, points);
  const double area = distances.grid.step * distances.grid.step;
  std::vector<float> results;
  for (std::size_t i = 0; i < centers.count; ++i) {
    const std::vector<Neighbor> all = distances.of(i);
    float w[3] = {}, u[3];
    const float* x[3];
    for (std::size_t j = 0; j < 3; ++j) {
      const Neighbor& neighbor = all[j < all.size() ? j : 0];
      u[j] = static_cast<float>(neighbor.square * area);
      x[j] = values.numbers + neighbor.index * values.channels;
      if (j >= all.size()) continue;
      if (guard == Guard::limit) w[j] = u[j] > 0 ? u[0] / u[j] : 1;
      if (guard == Guard::add) w[j] = 1 / (u[j] + epsilon);
      if (guard == Guard::clamp) w[j] = 1 / (u[j] < epsilon ? epsilon : u[j]);
    }
    const float sum = w[0] + w[1] + w[2];
    for (std::size_t c = 0; c < values.channels; ++c) {
      results.push_back(w[0] / sum * x[0][c] + w[1] / sum * x[1][c] + w[2] / sum * x[2][c]);
    }
  }
  return results;
}

}  // namespace bipointnet::naive
