// Builds networks operation by operation, as the reader would, with random tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "format/network.h"
#include "random_source.h"

namespace bipointnet::random {

inline SizeRule exactly(int count) {
  const auto number = static_cast<std::uint32_t>(count);
  return {0, Rounding::floor, number, number};
}

// The smaller of `count` and n.
inline SizeRule at_most(int count) { return {1, Rounding::floor, 1, static_cast<std::uint32_t>(count)}; }

constexpr int kNone = -1;

// Every function adds one operation and returns the number of its first result.
class Builder {
 public:
  Network network;
  Source& source;

  Builder(Source& chosen, int channels, int classes) : source(chosen) {
    network.channels = channels;
    network.normalize = static_cast<Normalize>(source.below(3));
    for (int i = 0; i < classes; ++i) network.classes.push_back("class " + std::to_string(i));
    network.domains.push_back({});
    Domain points;
    points.type = Domain::Type::set;
    points.parent = 0;
    network.domains.push_back(points);
  }

  int channels(int value) const { return network.values[size(value)].channels; }
  int domain(int value) const { return network.values[size(value)].domain; }
  Kind kind(int value) const { return network.values[size(value)].kind; }
  const Domain& domain_of(int value) const { return network.domains[size(domain(value))]; }
  Domain::Type type(int value) const { return domain_of(value).type; }
  int parent(int value) const { return domain_of(value).parent; }

  int points() { return add(Op::points, {}, Kind::floats, 1, network.channels); }

  int category(int count) {
    for (int i = 0; i < count; ++i) network.categories.push_back("category " + std::to_string(i));
    return add(Op::category, {}, Kind::bits, 0, count);
  }

  int farthest(int of, SizeRule count, Order order) {
    Domain set;
    set.type = Domain::Type::set;
    set.parent = 0;
    set.source = domain(of);
    set.count = count;
    set.capped = order == Order::coordinates;
    network.domains.push_back(set);
    const int result = add(Op::farthest, {of}, Kind::indices, last_domain(), 1);
    last().order = order;
    return result;
  }

  int nearest(int centers, int of, int ties, SizeRule count, int dilation) {
    const int slots = groups(centers, of, count);
    const int result = add(Op::nearest, search_operands(centers, of, ties), Kind::indices, slots, 1);
    last().dilation = dilation;
    return result;
  }

  int ball(int centers, int of, int ties, SizeRule count, double radius, Order order) {
    const int slots = groups(centers, of, count);
    const int result = add(Op::ball, search_operands(centers, of, ties), Kind::indices, slots, 1);
    last().radius = radius;
    last().order = order;
    return result;
  }

  int interpolate(int centers, int of, int values, Guard guard, float epsilon) {
    const int result = add(Op::interpolate, {centers, of, values}, Kind::floats, domain(centers), channels(values));
    last().guard = guard;
    last().epsilon = guard == Guard::limit ? 0 : epsilon;
    return result;
  }

  int density(int of, double bandwidth) {
    const int result = add(Op::density, {of}, Kind::floats, domain(of), 1);
    last().bandwidth = bandwidth;
    return result;
  }

  int gather(int a, int indices) { return add(Op::gather, {a, indices}, kind(a), domain(indices), channels(a)); }

  int broadcast(int a, int like) { return add(Op::broadcast, {a, like}, kind(a), domain(like), channels(a)); }

  int flatten(int a, Order order) {
    const int slots = static_cast<int>(domain_of(a).count.most);
    const int result = add(Op::flatten, {a}, kind(a), parent(a), slots * channels(a));
    last().order = order;
    return result;
  }

  int size_of(int a, Over over) {
    const int result = add(Op::size, {a}, Kind::floats, parent(a), 1);
    last().over = over;
    return result;
  }

  int concat(const std::vector<int>& parts) {
    int sum = 0;
    for (const int part : parts) sum += channels(part);
    return add(Op::concat, parts, kind(parts[0]), domain(parts[0]), sum);
  }

  int slice(int a, int from, int to) {
    const int result = add(Op::slice, {a}, kind(a), domain(a), to - from);
    last().from = from;
    last().to = to;
    return result;
  }

  int arithmetic(Op op, int a, int b) {
    return add(op, {a, b}, Kind::floats, domain(a), std::max(channels(a), channels(b)));
  }

  int affine(int a, Activation activation) {
    const int result = add(Op::affine, {a}, Kind::floats, domain(a), channels(a));
    last().activation = activation;
    for (int c = 0; c < 2 * channels(a); ++c) last().line.push_back(double{coarse_number()});
    return result;
  }

  // Adds the identity to a square matrix.
  int plus_identity(int matrix, int rows) {
    const int result = affine(matrix, Activation::none);
    for (int i = 0; i < rows * rows; ++i) {
      last().line[size(2 * i)] = 0.25;
      last().line[size(2 * i + 1)] = i % (rows + 1) == 0 ? 1 : 0;
    }
    return result;
  }

  int function(int a, Function function) {
    const int result = add(Op::function, {a}, Kind::floats, domain(a), channels(a));
    last().function = function;
    last().slope = function == Function::leaky_relu ? 0.2f : 0;
    return result;
  }

  int dense(int a, int outputs, Activation activation, int groups = 1) {
    const int result = add(Op::dense, {a}, Kind::floats, domain(a), outputs);
    last().activation = activation;
    last().groups = groups;
    const int steps = source.one_in(2) ? 2 : 1000;
    for (int i = 0; i < outputs * (channels(a) / groups); ++i) last().weight.push_back(source.number(steps));
    for (int m = 0; m < outputs; ++m) last().bias.push_back(source.number(8) / 4);
    return result;
  }

  int transform(int x, int matrix, int outputs) {
    return add(Op::transform, {x, matrix}, Kind::floats, domain(x), outputs);
  }

  int mix(int matrix, int x) { return add(Op::mix, {matrix, x}, Kind::floats, domain(x), channels(x)); }

  int outer(int w, int x) { return add(Op::outer, {w, x}, Kind::floats, parent(w), channels(w) * channels(x)); }

  // `codes`: bits over the same domain, whose distinct rows are counted instead of `over`; or -1.
  int pool(int a, Pool kind, Over over, bool shifted, int codes = -1) {
    const std::vector<int> operands = codes < 0 ? std::vector<int>{a} : std::vector<int>{a, codes};
    const int result = add(Op::pool, operands, Kind::floats, parent(a), channels(a));
    last().pool = kind;
    last().over = codes < 0 ? over : Over::distinct;
    last().shifted = shifted;
    return result;
  }

  int sign(int a, float at = 0) {
    const int result = add(Op::sign, {a}, Kind::bits, domain(a), channels(a));
    last().at = at;
    return result;
  }

  int mean_abs(int a, int groups) {
    const int result = add(Op::mean_abs, {a}, Kind::floats, domain(a), groups);
    last().groups = groups;
    return result;
  }

  int bilinear(int a, int outputs, int groups = 1) {
    const int result = add(Op::bilinear, {a}, Kind::bits, domain(a), outputs);
    last().groups = groups;
    random_bits();
    random_thresholds();
    return result;
  }

  int bilinear_float(int a, int outputs, Activation activation, int groups = 1, int scale = kNone) {
    const std::vector<int> in = scale == kNone ? std::vector<int>{a} : std::vector<int>{a, scale};
    const int result = add(Op::bilinear_float, in, Kind::floats, domain(a), outputs);
    last().activation = activation;
    last().groups = groups;
    random_bits();
    const bool rises = source.one_in(2);  // with the agreements: the engine then pools counts
    for (int m = 0; m < outputs; ++m) {
      const double a = double{coarse_number() / 4};
      last().line.push_back(rises ? std::abs(a) : a);
      last().line.push_back(double{coarse_number() / 4});
    }
    return result;
  }

  // second: whether there is a second result. Its number is that of the first plus 1.
  int bilinear_pool(int a, int outputs, Pool kind, Over over, bool shifted, bool second) {
    const int result = add(Op::bilinear_pool, {a}, Kind::bits, parent(a), outputs);
    last().pool = kind;
    last().over = over;
    last().shifted = shifted;
    random_bits();
    const double inputs = channels(a), deviation = std::sqrt(inputs) / 2;
    for (int m = 0; m < outputs; ++m) {
      const double jitter = double{coarse_number()};
      if (kind == Pool::mean) {
        last().line.push_back(inputs / 2 + jitter / 2);
        last().line.push_back(0);
      } else {
        last().line.push_back(inputs / 2 + deviation * (jitter + (shifted ? 0 : 1.5)));
        last().line.push_back(deviation * (0.8 + 0.3 * double{coarse_number()}));
      }
    }
    if (second) {
      add_result(Kind::bits, domain(a), outputs);
      random_thresholds();
    }
    return result;
  }

  // Numbers of this kind tie often: multiples of 1/8.
  float coarse_number() { return source.number(8); }

  Operation& last() { return network.operations.back(); }

 private:
  int add(Op op, const std::vector<int>& in, Kind kind, int domain, int channels) {
    Operation operation;
    operation.op = op;
    operation.in = in;
    operation.inputs = in.empty() ? 0 : this->channels(in[0]);
    operation.outputs = channels;
    network.operations.push_back(std::move(operation));
    add_result(kind, domain, channels);
    return last().out[0];
  }

  void add_result(Kind kind, int domain, int channels) {
    const int number = static_cast<int>(network.values.size());
    network.values.push_back({"v" + std::to_string(number), kind, domain, channels});
    last().out.push_back(number);
  }

  int last_domain() const { return static_cast<int>(network.domains.size()) - 1; }

  int groups(int centers, int of, SizeRule count) {
    Domain groups;
    groups.type = Domain::Type::groups;
    groups.parent = domain(centers);
    groups.source = domain(of);
    groups.count = count;
    network.domains.push_back(groups);
    return last_domain();
  }

  static std::vector<int> search_operands(int centers, int of, int ties) {
    return ties == kNone ? std::vector<int>{centers, of} : std::vector<int>{centers, of, ties};
  }

  void random_bits() {
    Operation& operation = last();
    const std::size_t inputs = size(operation.inputs / operation.groups), words = words_for(inputs);
    for (std::size_t i = 0; i < size(operation.outputs) * words; ++i) {
      const bool padded = i % words == words - 1 && inputs % 64 != 0;
      operation.bits.push_back(source.word() & (padded ? (std::uint64_t{1} << inputs % 64) - 1 : ~std::uint64_t{0}));
    }
  }

  // Near K / 2, where bits vary; a few are constant.
  void random_thresholds() {
    Operation& operation = last();
    const int inputs = operation.inputs / operation.groups;
    for (int m = 0; m < operation.outputs; ++m) {
      const int near = (inputs + 1) / 2 + static_cast<int>(source.word() % 5) - 2;
      const int threshold = m % 23 == 22 ? inputs + 1 : m % 29 == 28 ? 0 : near;
      operation.threshold.push_back(static_cast<std::int16_t>(std::clamp(threshold, 0, inputs + 1)));
    }
  }
};

}  // namespace bipointnet::random
