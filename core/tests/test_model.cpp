// Whole networks: every value after every operation against a plain interpreter of docs/format.md, on every instruction
// set of this machine; and the C API.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "bipointnet.h"
#include "check.h"
#include "delta.h"
#include "dispatch.h"
#include "model.h"
#include "packed_writer.h"

using namespace bipointnet;

namespace {

std::mt19937_64 rng(2);

std::size_t at(int i) { return static_cast<std::size_t>(i); }

float number() { return static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 1000.0f; }

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
    add(Op::points, network.channels);
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
      layer.bits.push_back(rng() & (last ? (std::uint64_t{1} << inputs % 64) - 1 : ~std::uint64_t{0}));
    }
    return layer;
  }

  void bilinear(int outputs) {
    const int inputs = width;
    Layer& layer = weights(Op::bilinear, outputs);
    for (int m = 0; m < outputs; ++m) {
      const int near = inputs / 2 + static_cast<int>(rng() % 5) - 2;
      layer.threshold.push_back(static_cast<std::int16_t>(std::clamp(m % 11 == 0 ? inputs + 1 : near, 0, inputs + 1)));
    }
  }

  void pool(int outputs, Pool kind, bool shifted) {
    const int inputs = width;
    Layer& layer = weights(Op::bilinear_pool, outputs);
    layer.pool = kind;
    layer.shifted = shifted;
    for (int m = 0; m < outputs; ++m) {
      const double middle = inputs / 2.0 + (kind == Pool::mean ? 0.3 : 0.2 * inputs) * double{number()};
      layer.line.push_back(middle);
      layer.line.push_back(kind == Pool::mean ? 0 : std::sqrt(inputs) / 2 * (0.8 + 0.3 * double{number()}));
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
  std::vector<std::vector<float>> rows;  // one a point, or one
};

std::vector<float> activated(std::vector<float> y, Activation activation) {
  for (float& v : y) {
    if (activation == Activation::relu) v = std::max(v, 0.0f);
    if (activation == Activation::hardtanh) v = std::min(std::max(v, -1.0f), 1.0f);
  }
  return y;
}

int agreements(const Layer& layer, int m, const std::vector<float>& bits) {
  int count = 0;
  for (int k = 0; k < layer.inputs; ++k) {
    const std::uint64_t word = layer.bits[at(m) * words_for(at(layer.inputs)) + at(k) / 64];
    count += (word >> k % 64 & 1) == (bits[at(k)] != 0);
  }
  return count;
}

// sum over k of w[k * step] x[k], in order, rounded after every operation.
float product(const float* w, std::size_t step, const std::vector<float>& x, int size) {
  volatile float sum = 0;
  for (int k = 0; k < size; ++k) {
    volatile float term = w[at(k) * step] * x[at(k)];
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

// The mean of |x|, in eight sums that are then added.
float mean_size(const std::vector<float>& x) {
  double total = 0;
  for (std::size_t j = 0; j < 8; ++j) {
    double sum = 0;
    for (std::size_t k = j; k < x.size(); k += 8) sum += std::abs(double{x[k]});
    total += sum;
  }
  return static_cast<float>(total / static_cast<double>(x.size()));
}

// The value after every operation, for a cloud that is taken as it is.
std::vector<Naive> interpret(const Network& network, const std::vector<float>& cloud) {
  const std::size_t channels = at(network.channels), n = cloud.size() / channels;
  std::vector<Naive> values;
  std::vector<std::vector<float>> current, matrices;
  std::vector<float> scales;
  for (const Layer& layer : network.layers) {
    std::vector<std::vector<float>> next;
    if (layer.op == Op::points) {
      for (std::size_t i = 0; i < n; ++i) next.emplace_back(&cloud[i * channels], &cloud[i * channels] + channels);
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
        float largest = current[0][k];
        double sum = 0, group = 0;
        for (std::size_t i = 0; i < n; ++i) {
          largest = std::max(largest, current[i][k]);
          group += double{current[i][k]};
          if (i % 64 == 63 || i == n - 1) {
            sum += group;
            group = 0;
          }
        }
        next[0][k] = layer.pool == Pool::max ? largest : static_cast<float>(sum / static_cast<double>(n));
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
        for (const auto& row : current) scales.push_back(mean_size(row));
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
  }
  return values;
}

std::vector<float> random_cloud(int points, int channels, bool with_twins) {
  std::vector<float> cloud;
  for (int i = 0; i < points * channels; ++i) {
    // Coarse coordinates, so that points share codes, as those of a scan do.
    cloud.push_back(with_twins ? std::round(number() * 8) / 8 : number());
  }
  return cloud;
}

// Gives the network the golden vector it will have, by a model that is not checked.
void set_golden(Network& network) {
  network.golden_points = 5;
  network.golden_seed = 7;
  network.golden_tolerance = 1e30;
  network.golden.assign(network.classes.size(), 0);
}

void check_network(Network network, std::initializer_list<int> sizes) {
  set_golden(network);
  for (const int points : sizes) {
    const std::vector<float> cloud = random_cloud(points, network.channels, points % 2 == 0);
    const std::vector<Naive> expected = interpret(network, cloud);
    for (const Kernels* kernels : available_kernels()) {
      const Model model(network, *kernels);
      const std::vector<Value> values = model.trace(cloud.data(), at(points), true);
      CHECK_EQUAL(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::vector<float> flat;
        for (const auto& row : expected[i].rows) flat.insert(flat.end(), row.begin(), row.end());
        if (!CHECK(values[i].numbers == flat)) {
          std::cerr << "  " << kernels->name << ", " << points << " points, operation " << i << "\n";
        }
      }
      for (const unsigned threads : {1u, 2u, 5u}) {
        std::vector<float> logits(network.classes.size());
        model.predict(cloud.data(), 1, at(points), true, threads, logits.data());
        if (!CHECK(logits == expected.back().rows[0])) {
          std::cerr << "  " << kernels->name << ", " << points << " points, " << threads << " threads\n";
        }
      }
    }
  }
}

Network vanilla(int channels, int first, int second, int pooled, Pool kind, bool shifted) {
  Builder b(channels, 7);
  b.start();
  b.dense(first, Activation::hardtanh);
  b.sign();
  b.bilinear(second);
  b.pool(pooled, kind, shifted);
  b.bilinear(40);
  b.bilinear_float(33, Activation::hardtanh);
  b.dense(7, Activation::none);
  return b.network;
}

Network with_transforms(bool binary_first) {
  Builder b(4, 5);
  b.start();
  if (binary_first) {
    b.sign();
    b.bilinear(30);
  } else {
    b.dense(30, Activation::hardtanh);
    b.sign();
  }
  b.pool(50, Pool::max, true);
  b.bilinear_float(9, Activation::none);
  b.matrix(3);
  b.start();
  b.transform(0);
  b.dense(20, Activation::hardtanh);
  b.sign();
  b.bilinear(70);
  b.pool(90, Pool::max, true);
  b.bilinear_float(400, Activation::none);
  b.matrix(20);
  b.start();
  b.transform(0);
  b.dense(20, Activation::hardtanh);
  b.transform(1);
  b.sign();
  b.bilinear(66);
  b.pool(99, Pool::max, false);
  b.bilinear_float(5, Activation::relu);
  return b.network;
}

// Floats at every point behind 1-bit layers, with a scale a point and without one.
Network with_scales(Pool kind, bool shifted) {
  Builder b(3, 6);
  b.start();
  b.dense(37, Activation::hardtanh);
  b.sign_scaled();
  b.bilinear_float(70, Activation::hardtanh, Op::bilinear_scaled);
  b.sign_scaled();
  b.bilinear_float(131, Activation::none, Op::bilinear_scaled);
  b.pool_floats(kind);
  if (shifted) b.shift();
  b.sign_scaled();
  b.bilinear_float(20, Activation::hardtanh, Op::bilinear_scaled);
  b.dense(6, Activation::none);
  return b.network;
}

Network pointwise_with_transforms(Pool kind) {
  Builder b(4, 5);
  b.start();
  b.sign();
  b.bilinear_float(30, Activation::hardtanh);
  b.compare(0.25f);
  b.pool(50, kind, kind == Pool::max);
  b.bilinear_float(9, Activation::none);
  b.matrix(3);
  b.start();
  b.transform(0);
  b.sign();
  b.bilinear_float(20, Activation::hardtanh);
  b.dense(11, Activation::relu);
  b.compare(0.5f);
  b.bilinear(66);
  b.pool(99, kind, false);
  b.bilinear_float(5, Activation::relu);
  return b.network;
}

// A comparison with another number than 0, in blocks.
Network compared() {
  Builder b(3, 4);
  b.start();
  b.dense(20, Activation::none);
  b.compare(-0.375f);
  b.bilinear(66);
  b.pool(99, Pool::max, true);
  b.bilinear_float(33, Activation::hardtanh);
  b.compare(0.125f);
  b.bilinear_float(4, Activation::none);
  return b.network;
}

Network full_precision(Pool kind) {
  Builder b(3, 4);
  b.start();
  b.dense(17, Activation::relu);
  b.dense(30, Activation::relu);
  b.pool_floats(kind);
  b.dense(12, Activation::relu);
  b.dense(4, Activation::none);
  return b.network;
}

void check_normalising() {
  Network network = vanilla(3, 64, 64, 64, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<float> cloud = random_cloud(300, 3, false), moved = cloud, a(7), b(7);
  for (float& v : moved) v = 4 * v + 32;
  model.predict(cloud.data(), 1, 300, false, 1, a.data());
  model.predict(moved.data(), 1, 300, false, 1, b.data());
  double difference = 0;
  for (std::size_t i = 0; i < 7; ++i) difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  CHECK(difference < 0.2);
  const std::vector<float> same(30, 5.0f);  // ten times one point: radius 0
  model.predict(same.data(), 1, 10, false, 1, a.data());
  for (const float v : a) CHECK(std::isfinite(v));
}

void check_errors() {
  Network network = vanilla(3, 8, 8, 8, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<float> cloud = random_cloud(10, 3, false), logits(7);
  const auto refuses = [&](std::size_t points, unsigned threads) {
    try {
      model.predict(cloud.data(), 1, points, false, threads, logits.data());
      return false;
    } catch (const InputError&) {
      return true;
    }
  };
  CHECK(!refuses(10, 1));
  CHECK(refuses(0, 1));
  CHECK(refuses(10, 0));
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    cloud[29] = bad;
    CHECK(refuses(10, 1));
    CHECK(refuses(10, 2));
    CHECK(!refuses(9, 1));
  }
  network.golden_tolerance = 1e-6;
  network.golden[3] = 1e6f;
  bool refused = false;
  try {
    const Model wrong(network, find_kernels());
  } catch (const FormatError& error) {
    refused = std::string(error.what()).find("golden") == 0;
  }
  CHECK(refused);
}

void check_isa_names() {
  setenv("BIPOINTNET_ISA", "portable", 1);
  CHECK_EQUAL(std::string(find_kernels().name), "portable");
  setenv("BIPOINTNET_ISA", "mmx", 1);
  CHECK(bipointnet_isa() == nullptr);
  CHECK(std::strstr(bipointnet_error(), "'mmx'") != nullptr);
  unsetenv("BIPOINTNET_ISA");
  CHECK_EQUAL(std::string(bipointnet_isa()), available_kernels().front()->name);
}

void check_many_threads() {
  Network network = vanilla(3, 64, 128, 256, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<std::vector<float>> clouds, expected;
  for (int i = 0; i < 8; ++i) {
    clouds.push_back(random_cloud(100 + 300 * i, 3, true));
    expected.emplace_back(7);
    model.predict(clouds.back().data(), 1, clouds.back().size() / 3, true, 1, expected.back().data());
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 80; ++i) {
        const std::size_t c = (t + i) % 8;
        std::vector<float> logits(7);
        model.predict(clouds[c].data(), 1, clouds[c].size() / 3, true, 1 + i % 2, logits.data());
        wrong[t] += logits != expected[c];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int w : wrong) CHECK_EQUAL(w, 0);
}

void check_c_api() {
  const Bytes file = small_file().bytes();
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load("no/such/file", &model), BIPOINTNET_ERROR_FILE);
  CHECK(std::strstr(bipointnet_error(), "no/such/file") != nullptr);
  CHECK_EQUAL(bipointnet_load_bytes(file.data(), 5, &model), BIPOINTNET_ERROR_FORMAT);
  CHECK_EQUAL(bipointnet_load_bytes(nullptr, 5, &model), BIPOINTNET_ERROR_INPUT);
  CHECK(model == nullptr);
}

}  // namespace

int main() {
  for (const int first : {1, 7, 63, 64, 65}) {
    check_network(vanilla(3, first, 100, 130, Pool::max, true), {1, 2, 63, 200});
  }
  check_network(vanilla(3, 64, 128, 200, Pool::max, true), {1, 2, 63, 511, 512, 513, 2000, 5000});
  check_network(vanilla(6, 20, 31, 45, Pool::max, false), {1, 130, 513});
  check_network(vanilla(3, 40, 64, 70, Pool::mean, false), {1, 63, 513, 1100});
  check_network(with_transforms(false), {1, 65, 600, 2001});
  check_network(with_transforms(true), {1, 65, 600});
  check_network(with_scales(Pool::max, true), {1, 2, 65, 600});
  check_network(with_scales(Pool::max, false), {3, 513});
  check_network(with_scales(Pool::mean, false), {1, 64, 65, 600});
  check_network(pointwise_with_transforms(Pool::max), {1, 65, 600});
  check_network(pointwise_with_transforms(Pool::mean), {1, 65, 600});
  check_network(compared(), {1, 65, 600, 2001});
  check_network(full_precision(Pool::max), {1, 65, 600});
  check_network(full_precision(Pool::mean), {1, 64, 65, 600});
  check_normalising();
  check_errors();
  check_isa_names();
  check_many_threads();
  check_c_api();
  return check_report();
}
