// Random valid programs: graphs of all operations over all domains, small enough for the interpreter of naive.h.
#pragma once

#include <functional>

#include "random_builder.h"

namespace bipointnet::random {

// Upper bounds of a random program.
struct Bounds {
  int channels = 80;      // of a value
  int neighbors = 24;     // of a group
  int sets = 3;           // made by farthest
  int groups = 4;         // domains of groups
  int steps = 24;         // operations before the head
};

// Adds random operations to the values that exist, and a head that reads all values that nothing reads.
class Program {
 public:
  Program(Source& source, const Bounds& bounds)
      : bounds_(bounds), b_(source, source.between(3, 6), source.between(1, 9)), source_(source) {}

  Network make() {
    calm_ = {b_.points()};
    if (source_.one_in(4)) {
      b_.category(source_.between(1, 70));
      b_.network.task = Task::part;
    } else {
      b_.network.task = source_.one_of<Task>({Task::classify, Task::classify, Task::part, Task::semantic});
    }
    for (int steps = source_.between(1, bounds_.steps); steps > 0; --steps) step();
    finish();
    return std::move(b_.network);
  }

 private:
  using Test = std::function<bool(int)>;

  int values() const { return static_cast<int>(b_.network.values.size()); }

  // A value for which `test` holds, more often one of the last, or kNone.
  int pick(const Test& test) {
    std::vector<int> found;
    for (int v = 0; v < values(); ++v) {
      if (test(v)) found.push_back(v);
    }
    if (found.empty()) return kNone;
    const int count = static_cast<int>(found.size()), recent = std::min(count, 4);
    return source_.one_in(2) ? found[size(count - 1 - source_.below(recent))] : source_.one_of(found);
  }

  bool floats(int v) const { return b_.kind(v) == Kind::floats; }
  bool bits(int v) const { return b_.kind(v) == Kind::bits; }
  bool numbers(int v) const { return b_.kind(v) != Kind::indices; }
  bool of_cloud(int v) const { return b_.type(v) == Domain::Type::cloud; }
  bool of_set(int v) const { return b_.type(v) == Domain::Type::set; }
  bool of_groups(int v) const { return b_.type(v) == Domain::Type::groups; }
  bool same_domain(int v, int w) const { return b_.domain(v) == b_.domain(w); }

  // Operands of searches must be finite, so most of them come from values that stay small.
  int pick_coordinates(const Test& test) {
    const bool any = source_.one_in(30);
    return pick([&](int v) {
      const bool calm = std::find(calm_.begin(), calm_.end(), v) != calm_.end();
      return floats(v) && (any || calm) && test(v);
    });
  }

  void keep_calm(int from, int result) {
    if (std::find(calm_.begin(), calm_.end(), from) != calm_.end()) calm_.push_back(result);
  }

  int random_channels() {
    const int most = source_.one_in(3) ? bounds_.channels : std::min(20, bounds_.channels);
    return source_.between(1, most);
  }

  Activation random_activation() {
    return source_.one_of<Activation>({Activation::none, Activation::relu, Activation::hardtanh});
  }

  SizeRule random_rule(int most) {
    switch (source_.below(5)) {
      case 0: return exactly(source_.between(1, std::min(most, 12)));
      case 1: return exactly(source_.between(1, most));
      case 2: return at_most(source_.between(1, most));
      default: {
        const Rounding rounding = source_.one_of<Rounding>({Rounding::floor, Rounding::ceil, Rounding::even});
        const int least = source_.between(1, most), largest = source_.between(least, most);
        return {source_.between(0, 12) / 8.0, rounding, static_cast<std::uint32_t>(least),
                static_cast<std::uint32_t>(largest)};
      }
    }
  }

  int domains(Domain::Type type) const {
    int count = 0;
    for (const Domain& domain : b_.network.domains) count += domain.type == type;
    return count;
  }

  // A divisor of both numbers.
  int random_groups(int inputs, int outputs) {
    std::vector<int> divisors;
    for (int g = 1; g <= std::min(inputs, outputs); ++g) {
      if (inputs % g == 0 && outputs % g == 0) divisors.push_back(g);
    }
    return source_.one_in(2) ? 1 : source_.one_of(divisors);
  }

  void step() {
    switch (source_.below(13)) {
      case 0: return sample();
      case 1:
      case 2: return search();
      case 3: return move();
      case 4: return shape_channels();
      case 5: return compute();
      case 6: return combine();
      case 7: return small_products();
      case 8: return pool_floats();
      case 9: return interpolate();
      case 10: return make_bits();
      case 11: return bits_to_bits();
      default: return bits_to_floats();
    }
  }

  void sample() {
    const int of = pick_coordinates([&](int v) { return of_set(v); });
    if (of == kNone) return;
    if (source_.one_in(4)) {
      calm_.push_back(b_.density(of, source_.one_of<double>({0.05, 0.25, 1.0})));
    } else if (domains(Domain::Type::set) <= bounds_.sets) {
      const Order order = source_.one_of<Order>({Order::coordinates, Order::index});
      const int indices = b_.farthest(of, random_rule(3 * bounds_.neighbors), order);
      calm_.push_back(b_.gather(of, indices));
    }
  }

  void search() {
    if (domains(Domain::Type::groups) >= bounds_.groups) return;
    const int of = pick_coordinates([&](int v) { return of_set(v); });
    if (of == kNone) return;
    const int centers =
        pick_coordinates([&](int v) { return !of_groups(v) && b_.channels(v) == b_.channels(of); });
    if (centers == kNone) return;
    const int ties = source_.one_in(2) ? kNone : pick_coordinates([&](int v) { return same_domain(v, of); });
    const SizeRule rule = random_rule(bounds_.neighbors);
    if (source_.one_in(2)) {
      b_.nearest(centers, of, ties, rule, source_.one_in(3) ? source_.between(1, 5) : 1);
    } else {
      const Order order = source_.one_of<Order>({Order::nearest, Order::index});
      b_.ball(centers, of, ties, rule, source_.one_of<double>({1e-3, 0.25, 0.5, 1.5, 100}), order);
    }
    if (source_.one_in(4)) return;
    const int indices = values() - 1;
    const int moved = pick([&](int v) { return numbers(v) && same_domain(v, of); });
    keep_calm(moved, b_.gather(moved, indices));
  }

  bool is_ancestor(int ancestor, int domain) const {
    for (int d = b_.network.domains[size(domain)].parent; d >= 0; d = b_.network.domains[size(d)].parent) {
      if (d == ancestor) return true;
    }
    return false;
  }

  void move() {
    switch (source_.below(4)) {
      case 0: {
        const int indices = pick([&](int v) { return b_.kind(v) == Kind::indices; });
        if (indices == kNone) return;
        const int a = pick([&](int v) { return numbers(v) && b_.domain(v) == b_.domain_of(indices).source; });
        if (a != kNone) keep_calm(a, b_.gather(a, indices));
        return;
      }
      case 1: {
        const int a = pick([&](int v) { return numbers(v) && !of_groups(v); });
        const int like = pick([&](int v) { return is_ancestor(b_.domain(a), b_.domain(v)); });
        if (like != kNone) keep_calm(a, b_.broadcast(a, like));
        return;
      }
      case 2: {
        const int a = pick([&](int v) { return numbers(v) && flattens(v); });
        if (a != kNone) keep_calm(a, b_.flatten(a, source_.one_of<Order>({Order::slots, Order::channels})));
        return;
      }
      default: {
        const int a = pick([&](int v) { return !of_cloud(v); });
        calm_.push_back(b_.size_of(a, source_.one_of<Over>({Over::points, Over::neighbors})));
      }
    }
  }

  // The number of slots is fixed, and the result has few channels.
  bool flattens(int v) const {
    const SizeRule& rule = b_.domain_of(v).count;
    return of_groups(v) && rule.fixed() && static_cast<int>(rule.most) * b_.channels(v) <= 4 * bounds_.channels;
  }

  void shape_channels() {
    const int first = pick([&](int v) { return numbers(v); });
    if (source_.one_in(3)) {
      const int from = source_.below(b_.channels(first)), to = source_.between(from + 1, b_.channels(first));
      return keep_calm(first, b_.slice(first, from, to));
    }
    std::vector<int> parts = {first};
    int sum = b_.channels(first);
    for (int more = source_.between(1, 3); more > 0; --more) {
      const int next = pick([&](int v) { return b_.kind(v) == b_.kind(first) && same_domain(v, first); });
      sum += b_.channels(next);
      if (sum <= 4 * bounds_.channels) parts.push_back(next);
    }
    if (parts.size() > 1) b_.concat(parts);
  }

  void compute() {
    const int a = pick([&](int v) { return floats(v); });
    switch (source_.below(4)) {
      case 0: b_.affine(a, random_activation()); return;
      case 1: {
        const auto function = static_cast<Function>(source_.below(10));
        const int result = b_.function(a, function);
        if (function == Function::sigmoid || function == Function::tanh) keep_calm(a, result);
        return;
      }
      default: {
        const int outputs = random_channels();
        const Activation activation = random_activation();
        keep_calm(a, b_.dense(a, outputs, activation, random_groups(b_.channels(a), outputs)));
      }
    }
  }

  void combine() {
    const int a = pick([&](int v) { return floats(v); });
    const bool single = b_.channels(a) == 1;
    const int b = pick([&](int v) {
      const bool fits = single || b_.channels(v) == 1 || b_.channels(v) == b_.channels(a);
      return floats(v) && same_domain(v, a) && fits;
    });
    const Op op = source_.one_of<Op>({Op::add, Op::subtract, Op::subtract, Op::multiply, Op::divide});
    const int result = source_.one_in(2) ? b_.arithmetic(op, a, b) : b_.arithmetic(op, b, a);
    if (op == Op::subtract) keep_calm(a, result);
  }

  void small_products() {
    const int x = pick([&](int v) { return floats(v) && !of_cloud(v) && b_.channels(v) <= 24; });
    switch (source_.below(3)) {
      case 0: {
        // A matrix of the cloud, of the centers or of the elements themselves.
        const int outputs = source_.between(1, 6), source_of_matrix = pick([&](int v) {
          return floats(v) && (same_domain(v, x) || is_ancestor(b_.domain(v), b_.domain(x)));
        });
        if (source_of_matrix == kNone) return;
        const int matrix = b_.dense(source_of_matrix, b_.channels(x) * outputs, random_activation());
        b_.transform(x, matrix, outputs);
        return;
      }
      case 1: {
        const int w = pick([&](int v) { return floats(v) && same_domain(v, x) && b_.channels(v) <= 8; });
        if (w != kNone) b_.outer(w, x);
        return;
      }
      default: {
        const int mixed = pick([&](int v) { return floats(v) && flattens(v) && b_.domain_of(v).count.most <= 12; });
        if (mixed == kNone) return;
        const int k = static_cast<int>(b_.domain_of(mixed).count.most);
        b_.mix(b_.dense(b_.flatten(mixed, Order::slots), k * k, random_activation()), mixed);
      }
    }
  }

  void pool_floats() {
    const int a = pick([&](int v) { return floats(v) && !of_cloud(v); });
    const Pool pool = source_.one_of<Pool>({Pool::max, Pool::max, Pool::mean, Pool::sum});
    const Over over = source_.one_of<Over>({Over::points, Over::neighbors});
    const int bits_here = pool == Pool::max ? pick([&](int v) { return bits(v) && same_domain(v, a); }) : kNone;
    const int codes = bits_here != kNone && source_.one_in(3) ? bits_here : -1;
    const int result = b_.pool(a, pool, over, pool == Pool::max && source_.one_in(2), codes);
    if (pool != Pool::sum) keep_calm(a, result);
  }

  void interpolate() {
    const int of = pick_coordinates([&](int v) { return of_set(v); });
    if (of == kNone) return;
    const int values = pick([&](int v) { return floats(v) && same_domain(v, of); });
    const int centers = pick_coordinates([&](int v) { return of_set(v) && b_.channels(v) == b_.channels(of); });
    if (centers == kNone) return;
    const Guard guard = source_.one_of<Guard>({Guard::limit, Guard::add, Guard::clamp});
    const int result = b_.interpolate(centers, of, values, guard, 0x1p-20f);
    keep_calm(values, result);
  }

  void make_bits() {
    const int a = pick([&](int v) { return floats(v); });
    b_.sign(a, source_.one_of<float>({0, 0, 0.25f, -0.5f}));
  }

  void bits_to_bits() {
    const int a = pick([&](int v) { return bits(v); });
    if (a == kNone) return make_bits();
    const int outputs = random_channels();
    if (of_cloud(a) || source_.one_in(2)) {
      b_.bilinear(a, outputs, random_groups(b_.channels(a), outputs));
      return;
    }
    const bool mean = source_.one_in(4);
    const Over over = source_.one_of<Over>({Over::points, Over::neighbors, mean ? Over::points : Over::distinct});
    const bool shifted = !mean && source_.below(3) != 0;
    b_.bilinear_pool(a, outputs, mean ? Pool::mean : Pool::max, over, shifted, source_.one_in(2));
  }

  void bits_to_floats() {
    const int a = pick([&](int v) { return bits(v); });
    if (a == kNone) return make_bits();
    const int outputs = random_channels(), groups = random_groups(b_.channels(a), outputs);
    int scale = kNone;
    if (source_.one_in(3)) {
      const int scaled = pick([&](int v) { return floats(v) && same_domain(v, a) && b_.channels(v) % groups == 0; });
      if (scaled != kNone) scale = b_.mean_abs(scaled, groups);
    }
    const Activation activation = random_activation();
    const int result = b_.bilinear_float(a, outputs, activation, groups, scale);
    if (scale == kNone) calm_.push_back(result);
  }

  std::vector<int> unread() const {
    std::vector<bool> read(b_.network.values.size());
    for (const Operation& operation : b_.network.operations) {
      for (const int v : operation.in) read[size(v)] = true;
    }
    std::vector<int> found;
    for (int v = 0; v < values(); ++v) {
      if (!read[size(v)]) found.push_back(v);
    }
    return found;
  }

  // A value as bits over the cloud or, with logits per point, over the input points.
  int as_bits_of_logits(int v) {
    const int target = b_.network.task == Task::classify ? 0 : 1;
    if (b_.kind(v) == Kind::indices) {
      v = b_.gather(pick([&](int a) { return numbers(a) && b_.domain(a) == b_.domain_of(v).source; }), v);
    }
    while (b_.domain(v) != target && !of_cloud(v)) {
      v = bits(v) ? b_.bilinear_pool(v, b_.channels(v), Pool::max, Over::neighbors, true, false)
                  : b_.pool(v, Pool::max, Over::neighbors, false);
    }
    if (floats(v)) v = b_.sign(v, 0.125f);
    return b_.domain(v) == target ? v : b_.broadcast(v, 0);  // value 0 is the points
  }

  void finish() {
    std::vector<int> parts;
    for (const int v : unread()) parts.push_back(as_bits_of_logits(v));
    int all = parts[0];
    if (parts.size() > 1) all = b_.concat(parts);
    const int classes = static_cast<int>(b_.network.classes.size());
    if (source_.one_in(2)) all = b_.bilinear(all, random_channels());
    const int logits = b_.bilinear_float(all, classes, Activation::none);
    if (source_.one_in(2)) b_.dense(logits, classes, random_activation());
  }

  Bounds bounds_;
  Builder b_;
  Source& source_;
  std::vector<int> calm_;  // values that stay small
};

inline Network random_program(Source& source, const Bounds& bounds = {}) { return Program(source, bounds).make(); }

}  // namespace bipointnet::random
