// "Neighbors" of docs/format.md with plain loops over all pairs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "naive_value.h"

namespace bipointnet::naive {

// exp in float64 as the format defines it.
inline double exponential(double x) {
  if (x != x) return x;
  if (x > 709) return std::numeric_limits<double>::infinity();
  if (x < -708) return 0;
  const double k = std::nearbyint(x * 1.4426950408889634);
  const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double factorials[14] = {1};
  for (int i = 1; i <= 13; ++i) factorials[i] = factorials[i - 1] * i;  // exact, so 1 / i! is the nearest double
  double p = 1 / factorials[13];
  for (int i = 12; i >= 0; --i) p = p * r + 1 / factorials[i];
  return std::ldexp(p, static_cast<int>(k));
}

inline void check_range(const Value& operand) {
  for (const float x : operand.floats) {
    if (!(std::abs(x) <= 1e15)) throw Refused("a number that is not finite or beyond 10^15");
  }
}

// The grid of one operation.
struct Grid {
  std::vector<double> low;  // per channel
  double places_per_unit = 0, step = 0;

  explicit Grid(std::initializer_list<const Value*> operands) {
    const std::size_t channels = (*operands.begin())->columns;
    low.assign(channels, std::numeric_limits<double>::infinity());
    for (const Value* operand : operands) {
      check_range(*operand);
      for (std::size_t i = 0; i < operand->rows; ++i) {
        for (std::size_t c = 0; c < channels; ++c) low[c] = std::min(low[c], double{operand->number(i, c)});
      }
    }
    double extent = 0x1p-126;
    for (const Value* operand : operands) {
      for (std::size_t i = 0; i < operand->rows; ++i) {
        for (std::size_t c = 0; c < channels; ++c) extent = std::max(extent, double{operand->number(i, c)} - low[c]);
      }
    }
    double s = 0x1p-125;
    while (s <= extent) s *= 2;
    int log2_channels = 0;  // rounded up
    while (std::size_t{1} << log2_channels < channels) ++log2_channels;
    const double places = std::ldexp(1.0, (52 - log2_channels) / 2);
    places_per_unit = places / s;
    step = s / places;
  }

  // The places of all numbers, in the order of the numbers.
  std::vector<double> places(const Value& operand) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < operand.rows; ++i) {
      for (std::size_t c = 0; c < operand.columns; ++c) {
        all.push_back(std::nearbyint((double{operand.number(i, c)} - low[c]) * places_per_unit));
      }
    }
    return all;
  }
};

// D of two places.
inline double squared_distance(const double* a, const double* b, std::size_t channels) {
  double sum = 0;
  for (std::size_t c = 0; c < channels; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return sum;
}

// The rank of every element of a set of `count` elements. ties: null, or one row of channels per element.
inline std::vector<std::uint64_t> ranks(std::size_t count, const Value* ties) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [ties](std::size_t a, std::size_t b) {
    for (std::size_t c = 0; ties != nullptr && c < ties->columns; ++c) {
      if (ties->number(a, c) != ties->number(b, c)) return ties->number(a, c) < ties->number(b, c);
    }
    return false;
  });
  std::vector<std::uint64_t> rank(count);
  for (std::size_t place = 0; place < count; ++place) rank[order[place]] = place;
  return rank;
}

// A point as one center sees it.
struct Candidate {
  std::uint64_t key;
  double distance;  // D'
  std::uint32_t index;
};

inline std::uint64_t word_of(double number) {
  std::uint64_t word = 0;
  std::memcpy(&word, &number, sizeof word);
  return word;
}

inline double double_of(std::uint64_t word) {
  double number = 0;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

// Every point as each center sees it.
struct Candidates {
  std::vector<double> from, to;  // places of the centers and of the points
  std::vector<std::uint64_t> rank;
  std::size_t channels = 0;
  double step = 0;
  int rank_bits = 0;  // the number of bits of n - 1

  Candidates(const Value& centers, const Value& points, const Value* ties) : channels(points.columns) {
    const Grid grid({&points, &centers});
    if (ties != nullptr) check_range(*ties);
    step = grid.step;
    from = grid.places(centers);
    to = grid.places(points);
    rank = ranks(points.rows, ties);
    while ((std::uint64_t{points.rows} - 1) >> rank_bits != 0) ++rank_bits;
  }

  // In the order of the indices.
  std::vector<Candidate> of_center(std::size_t i) const {
    std::vector<Candidate> all;
    for (std::size_t j = 0; j < rank.size(); ++j) {
      const std::uint64_t word = word_of(squared_distance(&from[i * channels], &to[j * channels], channels));
      const std::uint64_t upper = word >> rank_bits << rank_bits;
      all.push_back({upper | rank[j], double_of(upper), static_cast<std::uint32_t>(j)});
    }
    return all;
  }
};

inline void sort_by_key(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
}

// Indices over groups: the neighbors of one center after those of another.
struct Groups {
  std::size_t slots = 0;
  std::vector<std::uint32_t> indices, counts;

  void add(const std::vector<std::uint32_t>& neighbors) {
    counts.push_back(static_cast<std::uint32_t>(neighbors.size()));
    for (std::size_t j = 0; j < slots; ++j) indices.push_back(neighbors[j < neighbors.size() ? j : 0]);
  }
};

inline Groups nearest(const Value& centers, const Value& points, const Value* ties, std::size_t slots,
                      std::size_t dilation) {
  Groups groups{slots, {}, {}};
  const Candidates candidates(centers, points, ties);
  for (std::size_t i = 0; i < centers.rows; ++i) {
    std::vector<Candidate> near = candidates.of_center(i);
    sort_by_key(near);
    const std::size_t found = std::min(slots * dilation, points.rows);
    std::vector<std::uint32_t> neighbors;
    for (std::size_t j = 0; j < found; j += dilation) neighbors.push_back(near[j].index);
    groups.add(neighbors);
  }
  return groups;
}

inline Groups ball(const Value& centers, const Value& points, const Value* ties, std::size_t slots, double radius,
                   Order order) {
  Groups groups{slots, {}, {}};
  const Candidates candidates(centers, points, ties);
  const double step = candidates.step;
  for (std::size_t i = 0; i < centers.rows; ++i) {
    std::vector<Candidate> near = candidates.of_center(i);
    std::vector<Candidate> inside;
    for (const Candidate& candidate : near) {
      const float squared = static_cast<float>(candidate.distance * (step * step));
      if (squared <= static_cast<float>(radius * radius)) inside.push_back(candidate);
    }
    if (inside.empty()) {
      sort_by_key(near);
      inside.push_back(near[0]);
    }
    if (order == Order::nearest) sort_by_key(inside);
    std::vector<std::uint32_t> neighbors;
    for (const Candidate& candidate : inside) neighbors.push_back(candidate.index);
    if (neighbors.size() > slots) neighbors.resize(slots);
    groups.add(neighbors);
  }
  return groups;
}

// The sum of the places of a channel, divided by n and rounded to nearest, ties to even.
inline double rounded_mean(std::uint64_t sum, std::uint64_t n) {
  const std::uint64_t whole = sum / n, rest = sum % n;
  const bool up = 2 * rest > n || (2 * rest == n && whole % 2 == 1);
  return static_cast<double>(whole + (up ? 1 : 0));
}

inline std::vector<double> centroid(const std::vector<double>& places, std::size_t channels) {
  std::vector<double> mean;
  const std::size_t n = places.size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<std::uint64_t>(places[i * channels + c]);
    mean.push_back(rounded_mean(sum, n));
  }
  return mean;
}

// `count` points; at most n of them if the order is by coordinates.
inline std::vector<std::uint32_t> farthest(const Value& points, std::size_t count, Order order) {
  const Grid grid({&points});
  const std::size_t n = points.rows, channels = points.columns;
  const std::vector<double> places = grid.places(points);
  const bool by_coordinates = order == Order::coordinates;
  const std::vector<std::uint64_t> rank = ranks(n, by_coordinates ? &points : nullptr);
  std::vector<double> gap(n, std::numeric_limits<double>::infinity());
  std::vector<bool> chosen(n);
  std::vector<std::uint32_t> result;
  // The point with the largest number, and the smallest rank among equals.
  const auto largest = [&](const std::vector<double>& numbers) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < n; ++i) {
      if (numbers[i] > numbers[best] || (numbers[i] == numbers[best] && rank[i] < rank[best])) best = i;
    }
    return best;
  };
  const auto choose = [&](std::size_t point) {
    chosen[point] = true;
    result.push_back(static_cast<std::uint32_t>(point));
    for (std::size_t i = 0; i < n; ++i) {
      gap[i] = std::min(gap[i], squared_distance(&places[i * channels], &places[point * channels], channels));
    }
  };
  const std::size_t chosen_points = by_coordinates ? std::min(count, n) : count;
  if (by_coordinates) {
    const std::vector<double> middle = centroid(places, channels);
    std::vector<double> distance;
    for (std::size_t i = 0; i < n; ++i) {
      distance.push_back(squared_distance(&places[i * channels], middle.data(), channels));
    }
    choose(largest(distance));
  } else {
    choose(0);
  }
  while (result.size() < chosen_points) {
    std::size_t next = largest(gap);
    if (by_coordinates && gap[next] == 0) {
      next = n;
      for (std::size_t i = 0; i < n; ++i) {
        if (!chosen[i] && (next == n || rank[i] < rank[next])) next = i;
      }
    }
    choose(next);
  }
  return result;
}

inline Value density(const Value& points, double bandwidth) {
  const Grid grid({&points});
  const std::size_t n = points.rows, channels = points.columns;
  const std::vector<double> places = grid.places(points);
  const double t = ((grid.step / bandwidth) * (grid.step / bandwidth)) * -0.5;
  Value result = floats_of(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;  // of integers below 2^53: exact
    for (std::size_t j = 0; j < n; ++j) {
      const double distance = squared_distance(&places[i * channels], &places[j * channels], channels);
      sum += std::nearbyint(exponential(distance * t) * 0x1p30);
    }
    const double volume = ((0x1p30 * static_cast<double>(n)) * bandwidth) * 2.5066282746310002;
    result.floats[i] = static_cast<float>(sum / volume);
  }
  return result;
}

inline Value interpolate(const Value& centers, const Value& points, const Value& values, Guard guard, float epsilon) {
  const Candidates candidates(centers, points, &points);
  Value result = floats_of(centers.rows, values.columns);
  for (std::size_t i = 0; i < centers.rows; ++i) {
    std::vector<Candidate> near = candidates.of_center(i);
    sort_by_key(near);
    float w[3], v[3];
    std::size_t row[3];
    float nearest = 0;  // u_1
    for (std::size_t j = 0; j < 3; ++j) {
      const Candidate& neighbor = near[j < near.size() ? j : 0];
      const float u = static_cast<float>(neighbor.distance * (candidates.step * candidates.step));
      if (j == 0) nearest = u;
      row[j] = neighbor.index;
      w[j] = guard == Guard::limit ? (u > 0 ? nearest / u : 1.0f)
             : guard == Guard::add ? 1.0f / (u + epsilon)
                                   : 1.0f / (u < epsilon ? epsilon : u);
      if (j >= near.size()) w[j] = 0;
    }
    const float total = (w[0] + w[1]) + w[2];
    for (std::size_t j = 0; j < 3; ++j) v[j] = w[j] / total;
    for (std::size_t c = 0; c < values.columns; ++c) {
      const float sum = v[0] * values.number(row[0], c) + v[1] * values.number(row[1], c);
      result.number(i, c) = sum + v[2] * values.number(row[2], c);
    }
  }
  return result;
}

}  // namespace bipointnet::naive
