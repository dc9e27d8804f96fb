// An interpreter of docs/format.md with plain loops, which shares no code with the engine but delta(). It is slow, and
// exact in every bit when it is compiled with -ffp-contract=off.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>

#include "naive_ops.h"

namespace bipointnet::naive {

// min(most, max(least, round(factor n)))
inline std::size_t size_by_rule(const SizeRule& rule, std::size_t n) {
  const double number = rule.factor * static_cast<double>(n);
  const double rounded = rule.rounding == Rounding::floor  ? std::floor(number)
                         : rule.rounding == Rounding::ceil ? std::ceil(number)
                                                           : std::nearbyint(number);
  return static_cast<std::size_t>(std::min<double>(rule.most, std::max<double>(rule.least, rounded)));
}

class Interpreter {
 public:
  explicit Interpreter(const Network& network)
      : network_(network), extents_(network.domains.size()), values_(network.values.size()) {
    extents_[0] = {1, 1, {1}};
  }

  // cloud: points x channels, normalized if that is wanted.
  std::vector<Value> run(const std::vector<float>& cloud, int category) {
    const std::size_t channels = size(network_.channels), points = cloud.size() / channels;
    set_extent(1, points);
    for (const Operation& op : network_.operations) {
      if (op.op == Op::points) {
        result(op) = floats_of(points, channels);
        result(op).floats = cloud;
      } else if (op.op == Op::category) {
        result(op) = bits_of(1, network_.categories.size());
        result(op).bits[size(category)] = 1;
      } else {
        evaluate(op);
      }
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto domain = size(network_.values[i].domain);
      if (network_.domains[domain].type == Domain::Type::groups) values_[i].counts = extents_[domain].counts;
    }
    return std::move(values_);
  }

 private:
  const Value& operand(const Operation& op, std::size_t i) const { return values_[size(op.in[i])]; }

  const Value* optional_operand(const Operation& op, std::size_t i) const {
    return i < op.in.size() ? &operand(op, i) : nullptr;
  }

  Value& result(const Operation& op) { return values_[size(op.out[0])]; }

  int domain_of(int value) const { return network_.values[size(value)].domain; }

  const Extent& extent_of(int value) const { return extents_[size(domain_of(value))]; }

  // A set of `count` elements.
  void set_extent(std::size_t domain, std::size_t count) {
    extents_[domain] = {1, count, {static_cast<std::uint32_t>(count)}};
  }

  void evaluate(const Operation& op) {
    switch (op.op) {
      case Op::farthest:
      case Op::nearest:
      case Op::ball: return search(op);
      case Op::bilinear_pool: return pool_bits(op);
      default: result(op) = evaluated(op);
    }
  }

  Value evaluated(const Operation& op) const {
    const Value& a = operand(op, 0);
    switch (op.op) {
      case Op::interpolate: return interpolate(a, operand(op, 1), operand(op, 2), op.guard, op.epsilon);
      case Op::density: return density(a, op.bandwidth);
      case Op::gather: return gathered(a, operand(op, 1));
      case Op::broadcast: return broadcast(op);
      case Op::flatten: return flatten(op, a, extent_of(op.in[0]));
      case Op::size: return sizes(op);
      case Op::concat: return joined(op);
      case Op::slice: return sliced(op, a);
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide: return arithmetic(op.op, a, operand(op, 1));
      case Op::affine: return affine(op, a);
      case Op::function: return applied(op, a);
      case Op::dense: return dense(op, a);
      case Op::transform: return transformed(op);
      case Op::mix: return mix(a, operand(op, 1), extent_of(op.in[1]));
      case Op::outer: return outer(a, operand(op, 1), extent_of(op.in[0]));
      case Op::pool: return pool(op, a, optional_operand(op, 1), extent_of(op.in[0]));
      case Op::sign: return signs(op, a);
      case Op::mean_abs: return mean_abs(op, a);
      case Op::bilinear: return thresholded(op, a.rows, Counts(op, a));
      case Op::bilinear_float: return bilinear_float(op, a, optional_operand(op, 1));
      default: throw std::logic_error("an operation that is evaluated elsewhere");
    }
  }

  void search(const Operation& op) {
    const auto domain = size(domain_of(op.out[0]));
    const SizeRule& rule = network_.domains[domain].count;
    if (op.op == Op::farthest) {
      const Value& points = operand(op, 0);
      result(op) = indices_of(farthest(points, size_by_rule(rule, points.rows), op.order));
      return set_extent(domain, result(op).rows);
    }
    const Value &centers = operand(op, 0), &points = operand(op, 1), *ties = optional_operand(op, 2);
    const std::size_t slots = size_by_rule(rule, points.rows);
    const Groups groups = op.op == Op::nearest ? nearest(centers, points, ties, slots, size(op.dilation))
                                               : ball(centers, points, ties, slots, op.radius, op.order);
    extents_[domain] = {centers.rows, slots, groups.counts};
    result(op) = indices_of(groups.indices);
  }

  void pool_bits(const Operation& op) {
    const Value& x = operand(op, 0);
    const Counts counts(op, x);
    if (op.out.size() == 2) values_[size(op.out[1])] = thresholded(op, x.rows, counts);
    result(op) = bilinear_pool(op, x, counts, extent_of(op.in[0]));
  }

  static Value gathered(const Value& a, const Value& indices) {
    Value y = value_of(a.kind, indices.rows, a.columns);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t c = 0; c < y.columns; ++c) copy_channel(y, i, c, a, indices.indices[i], c);
    }
    return y;
  }

  // The element of domain `to` that an element of `from` belongs to.
  std::size_t ancestor(std::size_t element, int from, int to) const {
    for (int domain = from; domain != to; domain = network_.domains[size(domain)].parent) {
      element /= extents_[size(domain)].slots;
    }
    return element;
  }

  Value broadcast(const Operation& op) const {
    const Value& a = operand(op, 0);
    const int from = domain_of(op.in[1]), to = domain_of(op.in[0]);
    Value y = value_of(a.kind, extent_of(op.in[1]).elements(), a.columns);
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t c = 0; c < y.columns; ++c) copy_channel(y, i, c, a, ancestor(i, from, to), c);
    }
    return y;
  }

  Value sizes(const Operation& op) const {
    const Extent& extent = extent_of(op.in[0]);
    Value y = floats_of(extent.parents, 1);
    for (std::size_t i = 0; i < y.rows; ++i) y.floats[i] = static_cast<float>(extent.counted(i, op.over));
    return y;
  }

  Value joined(const Operation& op) const {
    const Value& first = operand(op, 0);
    Value y = value_of(first.kind, first.rows, size(op.outputs));
    std::size_t column = 0;
    for (std::size_t part = 0; part < op.in.size(); ++part) {
      for (std::size_t c = 0; c < operand(op, part).columns; ++c, ++column) {
        for (std::size_t i = 0; i < y.rows; ++i) copy_channel(y, i, column, operand(op, part), i, c);
      }
    }
    return y;
  }

  static Value sliced(const Operation& op, const Value& a) {
    Value y = value_of(a.kind, a.rows, size(op.to - op.from));
    for (std::size_t i = 0; i < y.rows; ++i) {
      for (std::size_t c = 0; c < y.columns; ++c) copy_channel(y, i, c, a, i, size(op.from) + c);
    }
    return y;
  }

  static Value applied(const Operation& op, const Value& a) {
    Value y = floats_of(a.rows, a.columns);
    for (std::size_t i = 0; i < y.floats.size(); ++i) y.floats[i] = function_of(op.function, op.slope, a.floats[i]);
    return y;
  }

  static Value signs(const Operation& op, const Value& a) {
    Value y = bits_of(a.rows, a.columns);
    for (std::size_t i = 0; i < y.bits.size(); ++i) y.bits[i] = a.floats[i] >= op.at;
    return y;
  }

  Value transformed(const Operation& op) const {
    const Value &x = operand(op, 0), &matrix = operand(op, 1);
    Value y = floats_of(x.rows, size(op.outputs));
    for (std::size_t i = 0; i < y.rows; ++i) {
      const float* rows = &matrix.floats[ancestor(i, domain_of(op.in[0]), domain_of(op.in[1])) * matrix.columns];
      for (std::size_t c = 0; c < y.columns; ++c) {
        y.number(i, c) = sum_of_products(&x.floats[i * x.columns], 1, rows + c, y.columns, x.columns);
      }
    }
    return y;
  }

  const Network& network_;
  std::vector<Extent> extents_;  // of the domains
  std::vector<Value> values_;
};

// Its order decides which points of a large cloud are used.
inline std::uint64_t rank_of(const float* point, std::size_t channels) {
  std::uint64_t rank = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint32_t bits = 0;
    if (point[c] != 0) std::memcpy(&bits, &point[c], sizeof bits);
    rank ^= bits;
    rank *= 11400714819323198485u;
    rank ^= rank / 4294967296u;
  }
  return rank;
}

// The `most` points with the lowest ranks, in order, of a cloud without copies.
inline std::vector<float> thinned(const std::vector<float>& cloud, std::size_t channels, std::size_t most) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < cloud.size(); i += channels) order.push_back({rank_of(&cloud[i], channels), i});
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) starts.push_back(order[i].second);
  std::sort(starts.begin(), starts.end());
  std::vector<float> kept;
  for (const std::size_t start : starts) {
    for (std::size_t c = 0; c < channels; ++c) kept.push_back(cloud[start + c]);
  }
  return kept;
}

// The points of a cloud that equal no earlier point, and for each point the number of the one that it equals.
struct Distinct {
  std::vector<float> points;
  std::vector<std::size_t> place;
};

inline Distinct distinct_points(const std::vector<float>& cloud, std::size_t channels) {
  Distinct found;
  std::map<std::vector<float>, std::size_t> known;  // -0 < +0 is false, so they are equal
  for (std::size_t i = 0; i < cloud.size(); i += channels) {
    const auto first = cloud.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<float> point(first, first + static_cast<std::ptrdiff_t>(channels));
    const auto [at, is_new] = known.emplace(point, known.size());
    if (is_new) found.points.insert(found.points.end(), point.begin(), point.end());
    found.place.push_back(at->second);
  }
  return found;
}

// All values of a network, by number, for all points of cloud = points x channels. raw: the cloud is not normalized,
// whatever the network says. Throws Refused. Logits that are not finite are not refused.
inline std::vector<Value> run(const Network& network, const std::vector<float>& cloud, bool raw, int category) {
  const Normalize how = raw ? Normalize::none : network.normalize;
  return Interpreter(network).run(normalized(cloud, size(network.channels), how), category);
}

// The logits of a cloud: those of its distinct points, at most max_points. A copy of a point has those of the point.
inline std::vector<float> logits(const Network& network, const std::vector<float>& cloud, bool raw, int category) {
  Distinct distinct = distinct_points(cloud, size(network.channels));
  if (network.max_points > 0) distinct.points = thinned(distinct.points, size(network.channels), network.max_points);
  const std::vector<Value> values = run(network, distinct.points, raw, category);
  const std::vector<float>& found = values[size(network.operations.back().out[0])].floats;
  if (!network.per_point()) return found;
  std::vector<float> expanded;
  for (const std::size_t point : distinct.place) {
    const auto first = found.begin() + static_cast<std::ptrdiff_t>(point * network.classes.size());
    expanded.insert(expanded.end(), first, first + static_cast<std::ptrdiff_t>(network.classes.size()));
  }
  return expanded;
}

// The cloud of the golden vector, before it is normalized.
inline std::vector<float> golden_cloud(const Network& network) {
  std::vector<float> cloud(size(network.golden_points) * size(network.channels));
  std::uint64_t state = network.golden_seed;
  for (float& number : cloud) {
    state += 0x9E3779B97F4A7C15;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    number = static_cast<float>(static_cast<double>(z >> 40) * 0x1p-23 - 1);
  }
  return cloud;
}

}  // namespace bipointnet::naive
