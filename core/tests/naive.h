// Random networks, a simple interpreter of docs/format.md, and the law that the engine computes the same values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "engine/delta.h"
#include "engine/model.h"
#include "kernels/dispatch.h"

namespace bipointnet {

inline std::mt19937_64& rng() {
  static std::mt19937_64 rng(2);
  return rng;
}

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

inline int below(int limit) { return static_cast<int>(rng()() % static_cast<unsigned>(limit)); }

// In [-1, 1].
inline float number() { return static_cast<float>(below(2001) - 1000) / 1000.0f; }

// Builds programs operation by operation, with random tensors.
struct Builder {
  Network network;
  int width = 0;
  bool points = false;
  int matrices = 0;

  explicit Builder(int channels, int classes) {
    network.channels = channels;
    network.normalize = true;
    for (int i = 0; i < classes; ++i) network.classes.push_back("class " + std::to_string(i));
  }

  Layer& add(Op op, int outputs) {
    Layer layer;
    layer.op = op;
    layer.inputs = width;
    layer.outputs = outputs;
    layer.on_points = points;
    width = outputs;
    network.layers.push_back(layer);
    return network.layers.back();
  }

  void start() {
    width = 0;
    points = false;
    add(Op::points, network.channels);
    points = true;
  }

  // Repeats the operations from `from` to `to` - 1 with the same weights.
  void repeat(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) network.layers.push_back(Layer(network.layers[i]));
    width = network.layers.back().outputs;
    points = true;
  }

  void remember(Layer& layer) {
    layer.kept = static_cast<int>(network.kept.size());
    network.kept.push_back({layer.on_points, layer.outputs});
  }

  void keep() { remember(add(Op::keep, width)); }

  void category(int count) {
    width = 0;
    points = false;
    add(Op::category, count);
    network.categories.assign(at(count), "kind");
  }

  void join(const std::vector<int>& numbers) {
    int joined = 0;
    for (const int number : numbers) joined += network.kept[at(number)].width;
    width = 0;
    points = false;
    add(Op::join, joined).joined = numbers;
    points = true;
  }

  void dense(int outputs, Activation activation) {
    const int inputs = width;
    Layer& layer = add(Op::dense, outputs);
    layer.activation = activation;
    for (int i = 0; i < inputs * outputs; ++i) layer.weight.push_back(number());
    for (int i = 0; i < outputs; ++i) layer.bias.push_back(0.3f * number());
  }

  void sign() { add(Op::sign, width); }

  void compare(float at) { add(Op::compare, width).at = at; }

  void sign_scaled() { add(Op::sign_scaled, width); }

  void shift() { add(Op::shift, width); }

  void transform(int matrix) { add(Op::transform, width).matrix = matrix; }

  Layer& weights(Op op, int outputs) {
    const int inputs = width;
    Layer& layer = add(op, outputs);
    const std::size_t words = words_for(at(inputs));
    for (std::size_t i = 0; i < at(outputs) * words; ++i) {
      const bool last = i % words == words - 1 && inputs % 64 != 0;
      layer.bits.push_back(rng()() & (last ? (std::uint64_t{1} << inputs % 64) - 1 : ~std::uint64_t{0}));
    }
    return layer;
  }

  // Near K / 2, where bits vary; a few are constant.
  static void thresholds(Layer& layer) {
    for (int m = 0; m < layer.outputs; ++m) {
      const int near = layer.inputs / 2 + below(5) - 2, none = layer.inputs + 1;
      const int threshold = m % 11 == 0 ? none : m % 13 == 0 ? 0 : near;
      layer.threshold.push_back(static_cast<std::int16_t>(std::clamp(threshold, 0, none)));
    }
  }

  void bilinear(int outputs) { thresholds(weights(Op::bilinear, outputs)); }

  void pool(int outputs, Pool kind, bool shifted, bool keeps = false) {
    const int inputs = width;
    Layer& layer = weights(Op::bilinear_pool, outputs);
    layer.pool = kind;
    layer.shifted = shifted;
    for (int m = 0; m < outputs; ++m) {
      const double middle = inputs / 2.0 + (kind == Pool::mean ? 0.3 : 0.2 * inputs) * double{number()};
      layer.line.push_back(middle);
      layer.line.push_back(kind == Pool::mean ? 0 : std::sqrt(inputs) / 2 * (0.8 + 0.3 * double{number()}));
    }
    if (keeps) {
      thresholds(layer);
      remember(layer);
    }
    points = false;
  }

  void pool_floats(Pool kind) {
    add(Op::pool, width).pool = kind;
    points = false;
  }

  void bilinear_float(int outputs, Activation activation, Op op = Op::bilinear_float) {
    Layer& layer = weights(op, outputs);
    layer.activation = activation;
    for (int m = 0; m < 2 * outputs; ++m) layer.line.push_back(double{0.1f * number()});
  }

  void matrix(int size) {
    Layer& layer = add(Op::matrix, size);
    layer.matrix = matrices++;
    points = false;
  }
};

struct Naive {
  std::vector<std::vector<float>> rows;  // one per point, or one
};

inline std::vector<float> activated(std::vector<float> y, Activation activation) {
  for (float& v : y) {
    if (activation == Activation::relu) v = v > 0 ? v : 0.0f;
    if (activation == Activation::hardtanh) v = v < -1 ? -1.0f : v > 1 ? 1.0f : v;
  }
  return y;
}

inline int agreements(const Layer& layer, int m, const std::vector<float>& bits) {
  int count = 0;
  for (int k = 0; k < layer.inputs; ++k) {
    const std::uint64_t word = layer.bits[at(m) * words_for(at(layer.inputs)) + at(k) / 64];
    count += (word >> k % 64 & 1) == (bits[at(k)] != 0);
  }
  return count;
}

// sum over k of w[k * step] x[k], in order, rounded after every operation.
inline float product(const float* w, std::size_t step, const std::vector<float>& x, int size) {
  volatile float sum = 0;
  for (int k = 0; k < size; ++k) {
    volatile float term = w[at(k) * step] * x[at(k)];
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

// The mean of |x|, from eight partial sums.
inline float mean_abs(const std::vector<float>& x) {
  double total = 0;
  for (std::size_t j = 0; j < 8; ++j) {
    double sum = 0;
    for (std::size_t k = j; k < x.size(); k += 8) sum += std::abs(double{x[k]});
    total += sum;
  }
  return static_cast<float>(total / static_cast<double>(x.size()));
}

// The bits that a layer keeps of the value before it.
inline std::vector<std::vector<float>> kept_of(const Layer& layer, const std::vector<std::vector<float>>& value,
                                               bool reads_floats) {
  std::vector<std::vector<float>> kept;
  for (const auto& row : value) {
    kept.emplace_back(at(layer.outputs));
    for (int m = 0; m < layer.outputs; ++m) {
      kept.back()[at(m)] = layer.op == Op::keep ? (reads_floats ? row[at(m)] >= 0 : row[at(m)] != 0)
                                                : agreements(layer, m, row) >= layer.threshold[at(m)];
    }
  }
  return kept;
}

// The value after every operation, for a cloud that is not normalized.
inline std::vector<Naive> interpret(const Network& network, const std::vector<float>& cloud, int category = -1) {
  const std::size_t channels = at(network.channels), n = cloud.size() / channels;
  std::vector<Naive> values;
  std::vector<std::vector<float>> current, matrices;
  std::vector<std::vector<std::vector<float>>> kept;
  std::vector<float> scales;
  bool floats = false;  // whether the current value is floats
  for (const Layer& layer : network.layers) {
    std::vector<std::vector<float>> next;
    if (layer.op == Op::keep || layer.kept >= 0) kept.push_back(kept_of(layer, current, floats));
    if (layer.op == Op::points) {
      for (std::size_t i = 0; i < n; ++i) next.emplace_back(&cloud[i * channels], &cloud[i * channels] + channels);
    } else if (layer.op == Op::keep) {
      next = current;
    } else if (layer.op == Op::category) {
      next.emplace_back(at(layer.outputs));
      next[0][at(category)] = 1;
    } else if (layer.op == Op::join) {
      next.resize(n);
      for (const int number : layer.joined) {
        const auto& rows = kept[at(number)];
        const bool of_points = network.kept[at(number)].on_points;
        for (std::size_t i = 0; i < n; ++i) {
          const std::vector<float>& row = rows[of_points ? i : 0];
          next[i].insert(next[i].end(), row.begin(), row.end());
        }
      }
    } else if (layer.op == Op::bilinear_pool) {
      next.emplace_back(at(layer.outputs));
      for (int m = 0; m < layer.outputs; ++m) {
        const double a = layer.line[at(2 * m)], b = layer.line[at(2 * m + 1)];
        const double bound = layer.pool == Pool::mean ? std::ceil(static_cast<double>(n) * a)
                                                      : std::ceil(a + b * (layer.shifted ? delta(n) : 0.0));
        double sum = 0, most = 0;
        for (const auto& row : current) {
          const int count = agreements(layer, m, row);
          sum += count;
          most = std::max<double>(most, count);
        }
        next[0][at(m)] = (layer.pool == Pool::mean ? sum : most) >= bound;
      }
    } else if (layer.op == Op::pool) {
      next.emplace_back(at(layer.outputs));
      for (std::size_t k = 0; k < at(layer.outputs); ++k) {
        float largest = -std::numeric_limits<float>::infinity();  // NaN is never larger
        double sum = 0, group = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (current[i][k] > largest) largest = current[i][k];
          group += double{current[i][k]};
          if (i % 64 == 63 || i == n - 1) {
            sum += group;
            group = 0;
          }
        }
        next[0][k] = layer.pool == Pool::max ? (largest == 0 ? 0.0f : largest) : static_cast<float>(sum / static_cast<double>(n));
      }
    } else if (layer.op == Op::matrix) {
      std::vector<float> m = current[0];
      for (int i = 0; i < layer.outputs; ++i) m[at(i * layer.outputs + i)] += 1.0f;
      matrices.push_back(m);
      next = {m};
    } else if (layer.op == Op::shift) {
      next = current;
      for (float& v : next[0]) v -= static_cast<float>(delta(n));
    } else {
      if (layer.op == Op::sign_scaled) {
        scales.clear();
        for (const auto& row : current) scales.push_back(mean_abs(row));
      }
      std::size_t number_of_row = 0;
      for (const auto& row : current) {
        std::vector<float> y = layer.op == Op::transform ? row : std::vector<float>(at(layer.outputs));
        if (layer.op == Op::transform) {
          const std::vector<float>& m = matrices[at(layer.matrix)];
          const int size = static_cast<int>(std::lround(std::sqrt(static_cast<double>(m.size()))));
          for (int d = 0; d < size; ++d) y[at(d)] = product(&m[at(d)], at(size), row, size);
        }
        const std::size_t i = number_of_row++;
        for (int m = 0; m < layer.outputs; ++m) {
          float& v = y[at(m)];
          if (layer.op == Op::sign || layer.op == Op::sign_scaled) v = row[at(m)] >= 0;
          if (layer.op == Op::compare) v = row[at(m)] >= layer.at;
          if (layer.op == Op::bilinear) v = agreements(layer, m, row) >= layer.threshold[at(m)];
          if (layer.op == Op::dense) {
            v = product(&layer.weight[at(m * layer.inputs)], 1, row, layer.inputs) + layer.bias[at(m)];
          }
          if (layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled) {
            volatile float z = static_cast<float>(2 * agreements(layer, m, row) - layer.inputs);
            if (layer.op == Op::bilinear_scaled) z = scales[i] * z;
            volatile float scaled = static_cast<float>(layer.line[at(2 * m)]) * z;
            v = scaled + static_cast<float>(layer.line[at(2 * m + 1)]);
          }
        }
        next.push_back(activated(y, layer.activation));
      }
    }
    current = next;
    values.push_back({next});
    const std::initializer_list<Op> to_bits = {Op::sign,          Op::compare,  Op::sign_scaled, Op::bilinear,
                                               Op::bilinear_pool, Op::category, Op::join};
    if (layer.op != Op::keep) floats = std::find(to_bits.begin(), to_bits.end(), layer.op) == to_bits.end();
  }
  return values;
}

inline std::vector<float> random_cloud(int points, int channels, bool duplicates) {
  std::vector<float> cloud;
  for (int i = 0; i < points * channels; ++i) {
    // Coarse coordinates, so that points share codes as in a scan.
    cloud.push_back(duplicates ? std::round(number() * 8) / 8 : number());
  }
  return cloud;
}

// A golden vector with a tolerance that accepts any logits.
inline void set_golden(Network& network) {
  network.golden_points = 5;
  network.golden_seed = 7;
  network.golden_tolerance = 1e30;
  network.golden.assign((network.per_point() ? 5 : 1) * network.classes.size(), 0);
}

inline std::vector<float> flat(const Naive& value) {
  std::vector<float> numbers;
  for (const auto& row : value.rows) numbers.insert(numbers.end(), row.begin(), row.end());
  return numbers;
}

// Equal bits; all NaN are equal.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  const auto same = [](float x, float y) { return (x != x && y != y) || std::memcmp(&x, &y, sizeof x) == 0; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// Compares every value on every instruction set, and the logits for several numbers of threads.
inline void check_cloud(Network network, const std::vector<float>& cloud) {
  set_golden(network);
  const std::size_t points = cloud.size() / at(network.channels);
  const int categories = static_cast<int>(network.categories.size()), category = categories > 0 ? categories / 2 : -1;
  const std::vector<Naive> expected = interpret(network, cloud, category);
  for (const Kernels* kernels : available_kernels()) {
    const Model model(network, *kernels);
    const std::vector<Value> values = model.trace(cloud.data(), points, true, category);
    CHECK_EQUAL(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!CHECK(same_bits(values[i].numbers, flat(expected[i])))) {
        std::cerr << "  " << kernels->name << ", " << points << " points, operation " << i << "\n";
      }
    }
    for (const unsigned threads : {1u, 2u, 5u}) {
      std::vector<float> logits(model.logits(1, points));
      model.predict(cloud.data(), 1, points, true, threads, category, logits.data());
      if (!CHECK(same_bits(logits, flat(expected.back())))) {
        std::cerr << "  " << kernels->name << ", " << points << " points, " << threads << " threads\n";
      }
    }
  }
}

// The same for random clouds. Those with an even number of points have duplicate codes.
inline void check_network(const Network& network, std::initializer_list<int> sizes) {
  for (const int points : sizes) check_cloud(network, random_cloud(points, network.channels, points % 2 == 0));
}

}  // namespace bipointnet
