// Networks with logits of the cloud, compared with the interpreter of naive.h; and the errors of predict().
#include <string>
#include <thread>

#include "naive.h"

using namespace bipointnet;

namespace {

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

// Floats per point after 1-bit layers, with and without one scale per point.
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

// Comparisons with numbers other than 0.
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

// Floats of every kind are turned into bits at the end, so that the logits are finite.
Network with_extremes(Pool kind, bool scaled) {
  Builder b(3, 4);
  b.start();
  b.dense(20, Activation::none);
  b.dense(24, Activation::relu);
  b.dense(16, Activation::none);
  b.dense(17, Activation::hardtanh);
  if (scaled) {
    b.sign_scaled();
    b.bilinear_float(31, Activation::relu, Op::bilinear_scaled);
  }
  b.dense(9, Activation::none);
  b.pool_floats(kind);
  b.shift();
  b.matrix(3);
  b.start();
  b.transform(0);
  b.dense(21, Activation::none);
  b.pool_floats(kind);
  b.sign();
  b.bilinear_float(4, Activation::none);
  return b.network;
}

// Overflow, NaN, zeros of both signs and subnormal numbers have the same bits everywhere.
void check_extremes() {
  const std::vector<float> numbers = {0.0f,  -0.0f,   1e-45f, -1e-45f, 1e-38f,  -3e-39f, 1e-20f, -1e-20f,
                                      1.0f,  -2.5f,   1e30f,  -1e30f,  3.4e38f, -3.4e38f};
  for (const Pool kind : {Pool::max, Pool::mean}) {
    for (const bool scaled : {false, true}) {
      Network network = with_extremes(kind, scaled);
      for (const int points : {1, 3, 65, 140}) {
        for (const std::size_t kinds : {std::size_t{2}, std::size_t{8}, numbers.size()}) {
          std::vector<float> cloud;
          for (int i = 0; i < 3 * points; ++i) cloud.push_back(numbers[at(below(static_cast<int>(kinds)))]);
          check_cloud(network, cloud);
        }
      }
      for (Layer& layer : network.layers) {
        for (float& weight : layer.weight) weight *= below(4) == 0 ? -0.0f : below(4) == 0 ? 1e25f : 1e-25f;
        for (float& bias : layer.bias) bias *= -0.0f;
      }
      check_cloud(network, std::vector<float>(3 * 70, -0.0f));
      std::vector<float> cloud;
      for (int i = 0; i < 3 * 200; ++i) cloud.push_back(numbers[at(below(static_cast<int>(numbers.size())))]);
      check_cloud(network, cloud);
    }
  }
}

void check_normalizing() {
  Network network = vanilla(3, 64, 64, 64, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<float> cloud = random_cloud(300, 3, false), moved = cloud, a(7), b(7);
  for (float& v : moved) v = 4 * v + 32;
  model.predict(cloud.data(), 1, 300, false, 1, -1, a.data());
  model.predict(moved.data(), 1, 300, false, 1, -1, b.data());
  double difference = 0;
  for (std::size_t i = 0; i < 7; ++i) difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  CHECK(difference < 0.2);
  const std::vector<float> same(30, 5.0f);  // ten times one point: radius 0
  model.predict(same.data(), 1, 10, false, 1, -1, a.data());
  for (const float v : a) CHECK(std::isfinite(v));
}

void check_errors() {
  Network network = vanilla(3, 8, 8, 8, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<float> cloud = random_cloud(10, 3, false), logits(7);
  const auto refuses = [&](std::size_t points, unsigned threads) {
    try {
      model.predict(cloud.data(), 1, points, false, threads, -1, logits.data());
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

void check_many_threads() {
  Network network = vanilla(3, 64, 128, 256, Pool::max, true);
  set_golden(network);
  const Model model(network, find_kernels());
  std::vector<std::vector<float>> clouds, expected;
  for (int i = 0; i < 8; ++i) {
    clouds.push_back(random_cloud(100 + 300 * i, 3, true));
    expected.emplace_back(7);
    model.predict(clouds.back().data(), 1, clouds.back().size() / 3, true, 1, -1, expected.back().data());
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 80; ++i) {
        const std::size_t c = (t + i) % 8;
        std::vector<float> logits(7);
        model.predict(clouds[c].data(), 1, clouds[c].size() / 3, true, 1 + i % 2, -1, logits.data());
        wrong[t] += logits != expected[c];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int w : wrong) CHECK_EQUAL(w, 0);
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
  check_extremes();
  check_normalizing();
  check_errors();
  check_many_threads();
  return check_report();
}
