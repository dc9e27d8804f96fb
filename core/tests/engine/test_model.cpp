// Networks with logits of the cloud, compared with the interpreter of naive.h; and the errors of predict().
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "at_once.h"
#include "engine_checks.h"
#include "random_builder.h"

using namespace bipointnet;
using random::Builder;

namespace {

random::Source& source() {
  static random::Source source(2);
  return source;
}

void check_sizes(const Network& network, std::initializer_list<int> sizes) { check_network(network, source(), sizes); }

int pool_of(Builder& b, int bits, int outputs, Pool kind, bool shifted) {
  return b.bilinear_pool(bits, outputs, kind, Over::points, shifted, false);
}

Network vanilla(int channels, int first, int second, int pooled, Pool kind, bool shifted) {
  Builder b(source(), channels, 7);
  const int bits = b.sign(b.dense(b.points(), first, Activation::hardtanh));
  const int cloud = pool_of(b, b.bilinear(bits, second), pooled, kind, shifted);
  b.dense(b.bilinear_float(b.bilinear(cloud, 40), 33, Activation::hardtanh), 7, Activation::none);
  return b.network;
}

// The codes of the points are few: the first layer has at most 64 outputs, and the pool counts distinct codes.
Network distinct(int first, bool shifted) {
  Builder b(source(), 3, 4);
  const int bits = b.sign(b.dense(b.points(), first, Activation::none));
  const int cloud = b.bilinear_pool(b.bilinear(bits, 70), 90, Pool::max, Over::distinct, shifted, false);
  b.bilinear_float(cloud, 4, Activation::none);
  return b.network;
}

int transformed(Builder& b, int x, int cloud_bits) {
  const int rows = b.channels(x);
  return b.transform(x, b.plus_identity(b.bilinear_float(cloud_bits, rows * rows, Activation::none), rows), rows);
}

// Floats of every kind are turned into bits at the end, so that the logits are finite.
Network with_extremes(Pool kind, bool scaled) {
  Builder b(source(), 3, 4);
  const int points = b.points();
  int x = b.dense(points, 20, Activation::none);
  x = b.dense(x, 24, Activation::relu);
  x = b.dense(b.dense(x, 16, Activation::none), 17, Activation::hardtanh);
  if (scaled) x = b.bilinear_float(b.sign(x), 31, Activation::relu, 1, b.mean_abs(x, 1));
  x = b.pool(b.dense(x, 9, Activation::none), kind, Over::points, kind == Pool::max);
  x = b.dense(b.transform(points, x, 3), 21, Activation::none);
  for (const Function function : {Function::leaky_relu, Function::square, Function::sqrt, Function::reciprocal,
                                  Function::abs, Function::sigmoid, Function::exp, Function::tanh}) {
    x = b.concat({x, b.function(b.slice(x, 0, 5), function)});
  }
  x = b.concat({x, b.arithmetic(Op::divide, points, b.slice(points, 1, 2))});
  b.bilinear_float(b.sign(b.pool(x, kind, Over::points, false)), 4, Activation::none);
  return b.network;
}

// Overflow, NaN, zeros of both signs and subnormal numbers have the same bits everywhere.
void check_extremes() {
  const std::vector<float> numbers = {0.0f, -0.0f, 1e-45f, -1e-45f, 1e-38f,  -3e-39f, 1e-20f, -1e-20f,
                                      1.0f, -2.5f, 1e30f,  -1e30f,  3.4e38f, -3.4e38f};
  const auto random_cloud = [&](int points, int kinds) {
    std::vector<float> cloud;
    for (int i = 0; i < 3 * points; ++i) cloud.push_back(numbers[size(source().below(kinds))]);
    return cloud;
  };
  for (const Pool kind : {Pool::max, Pool::mean, Pool::sum}) {
    for (const bool scaled : {false, true}) {
      Network network = with_extremes(kind, scaled);
      CHECK(set_golden(network));
      Engines engines(network);
      for (const int points : {1, 3, 65, 140}) {
        for (const int kinds : {2, 8, 14}) engines.check(random_cloud(points, kinds), true);
      }
      Network extreme = network;
      for (Operation& operation : extreme.operations) {
        for (float& weight : operation.weight) {
          weight *= source().one_in(4) ? -0.0f : source().one_in(4) ? 1e25f : 1e-25f;
        }
        for (float& bias : operation.bias) bias *= -0.0f;
      }
      CHECK(set_golden(extreme));
      Engines others(extreme);
      others.check(std::vector<float>(3 * 70, -0.0f), true);
      others.check(random_cloud(200, 14), true);
    }
  }
}

// Copies of points change nothing: no maximum of all points nor, with a shift, of distinct codes; and no mean, number of
// points or normalization, for which they are dropped.
void check_copies() {
  Network counts_points = vanilla(3, 64, 64, 64, Pool::max, true), mean = vanilla(3, 64, 64, 64, Pool::mean, false);
  Network by_mean = distinct(30, true), by_box = distinct(30, true);
  by_mean.normalize = Normalize::mean;
  by_box.normalize = Normalize::box;
  for (Network network : {distinct(30, false), distinct(30, true), counts_points, mean, by_mean, by_box}) {
    CHECK(set_golden(network));
    const std::vector<float> cloud = random::random_cloud(source(), 200, 3, false);
    std::vector<float> copies = cloud;
    for (int i = 0; i < 700; ++i) {
      const std::size_t from = 3 * size(source().below(200));
      copies.insert(copies.end(), {cloud[from], cloud[from + 1], cloud[from + 2]});
    }
    for (const Kernels* kernels : available_kernels()) {
      const Model model(network, *kernels);
      std::vector<float> once(network.classes.size()), often(network.classes.size());
      model.predict(cloud.data(), 1, 200, false, 1, -1, once.data());
      model.predict(copies.data(), 1, 900, false, 2, -1, often.data());
      CHECK(once == often);
    }
  }
}

// A large cloud gives the logits of the points with the lowest ranks, in any order and with copies.
void check_thinning() {
  Network by_mean = distinct(30, true), by_box = by_mean, counts_points = vanilla(3, 64, 64, 64, Pool::max, true);
  by_mean.normalize = Normalize::mean;
  by_box.normalize = Normalize::box;
  for (Network network : {by_mean, by_box, counts_points, vanilla(3, 64, 64, 64, Pool::mean, false)}) {
    network.max_points = 100;
    CHECK(set_golden(network));
    for (const int count : {99, 100, 101, 130, 1000, 20000}) {
      std::vector<float> cloud = random::random_cloud(source(), count, 3, false), doubled = cloud;
      doubled.insert(doubled.end(), cloud.begin(), cloud.end());
      const std::vector<float> expected = naive::logits(network, cloud, false, -1);
      for (const Kernels* kernels : available_kernels()) {
        const Model model(network, *kernels);
        std::vector<float> found(expected.size());
        model.predict(cloud.data(), 1, size(count), false, 1, -1, found.data());
        CHECK(found == expected);
        model.predict(doubled.data(), 1, 2 * size(count), false, 1, -1, found.data());
        CHECK(found == expected);
        const std::size_t kept = kept_points(doubled.data(), 2 * size(count), 3, 100).index.size();
        CHECK_EQUAL(kept, std::min<std::size_t>(100, size(count)));
      }
    }
  }
}

// Ranks look like random numbers, also for points on a coarse grid: each eighth of a cube keeps its share.
void check_ranks() {
  std::vector<float> grid;
  for (int i = 0; i < 64 * 64 * 64; ++i) {
    for (const int place : {i % 64, i / 64 % 64, i / 4096}) grid.push_back(static_cast<float>(place) * 0.25f);
  }
  const std::vector<std::uint32_t> kept = kept_points(grid.data(), 64 * 64 * 64, 3, 8000).index;
  const std::vector<float> alike(3 * 5000, 1.5f);
  CHECK_EQUAL(kept_points(alike.data(), 5000, 3, 100).index.size(), 1u);
  CHECK_EQUAL(kept.size(), 8000u);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
  int shares[8] = {};
  for (const std::uint32_t i : kept) ++shares[i % 64 / 32 + 2 * (i / 64 % 64 / 32) + 4 * (i / 4096 / 32)];
  for (const int share : shares) CHECK(std::abs(share - 1000) < 150);  // five standard deviations
}

// The rank of docs/format.md, "Input".
std::uint64_t rank_of(const float* numbers, std::size_t channels) {
  std::uint64_t rank = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint32_t bits;
    std::memcpy(&bits, numbers + c, sizeof bits);
    rank = (rank ^ bits) * 0x9e3779b97f4a7c15;
    rank ^= rank >> 32;
  }
  return rank;
}

double seconds_for_copies(const std::vector<float>& cloud) {
  double least = INFINITY;
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    CHECK(kept_points(cloud.data(), cloud.size() / 3, 3, 0).index.empty());  // all are kept
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

// Copies are found in linear time, also among points that were chosen so that the low bits of their ranks are nearly
// equal. If ranks were slots, these points would take a thousand times as long, so the bound has room for a busy machine.
void check_chosen_ranks() {
  constexpr std::size_t count = kSmallMemory ? 4096 : 16384;
  std::vector<float> chosen, others;
  for (std::size_t i = 0; i < count; ++i) {
    float point[3] = {static_cast<float>(i), 0.5f, 1.0f};
    others.insert(others.end(), point, point + 3);
    while (rank_of(point, 3) % (4 * count) >= count / 16) point[2] = std::nextafter(point[2], 2.0f);
    chosen.insert(chosen.end(), point, point + 3);
  }
  const double seconds = seconds_for_copies(chosen), usual = seconds_for_copies(others);
  // A Cortex-M7 has no clock: both are 0.
  if (!CHECK(seconds <= 20 * usual)) std::cerr << "  " << seconds << " s instead of " << usual << " s\n";
}

void check_normalizing(Normalize how) {
  Network network = vanilla(3, 64, 64, 64, Pool::max, true);
  network.normalize = how;
  CHECK(set_golden(network));
  const Model model(network, find_kernels());
  const std::vector<float> cloud = random::random_cloud(source(), 300, 3, false);
  std::vector<float> moved = cloud, a(7), b(7);
  for (float& v : moved) v = 4 * v + 32;
  model.predict(cloud.data(), 1, 300, false, 1, -1, a.data());
  model.predict(moved.data(), 1, 300, false, 1, -1, b.data());
  double difference = 0;
  for (std::size_t i = 0; i < 7; ++i) difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
  CHECK(difference < 0.2);
  Engines engines(network);
  engines.check(moved, false);
  engines.check(std::vector<float>(30, 5.0f), false);  // ten times one point: radius 0
  engines.check(std::vector<float>(30, -0.0f), false);
}

// A model that only predicts has the same logits, and refuses to trace: its weights are freed.
void check_predicts_only() {
  Network network = vanilla(3, 40, 64, 70, Pool::max, true);
  CHECK(set_golden(network));
  const std::vector<float> cloud = random::random_cloud(source(), 10, 3, false);
  for (const Kernels* kernels : available_kernels()) {
    const Model model(network, *kernels, false, true);
    std::vector<float> logits(7);
    model.predict(cloud.data(), 1, 10, false, 1, -1, logits.data());
    CHECK(same_bits(logits, naive::logits(network, cloud, false, -1)));
    std::string message;
    try {
      model.trace(cloud.data(), 10, false, -1);
    } catch (const std::logic_error& error) {
      message = error.what();
    }
    CHECK_EQUAL(message, "trace() of a model that only predicts: its weights are freed");
  }
}

void check_errors() {
  Network network = vanilla(3, 8, 8, 8, Pool::max, true);
  CHECK(set_golden(network));
  const Model model(network, find_kernels());
  std::vector<float> cloud = random::random_cloud(source(), 10, 3, false), logits(7);
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
  // The first of the bad clouds of a batch is named.
  for (const std::size_t points : {10u, 600u}) {
    std::vector<float> clouds(8 * points * 3, 0.5f), all(8 * 7);
    clouds[3 * points * 3 + 4] = clouds[6 * points * 3] = INFINITY;
    for (const unsigned threads : {1u, 3u}) {
      std::string message;
      try {
        model.predict(clouds.data(), 8, points, false, threads, -1, all.data());
      } catch (const InputError& error) {
        message = error.what();
      }
      CHECK_EQUAL(message, "cloud 3: point 1: inf, expected finite numbers");
    }
  }
  // The message shows that the numbers differ, also by one bit.
  const float right = network.golden[3];
  for (const float wrong : {right + 1, std::nextafter(right, INFINITY)}) {
    network.golden[3] = wrong;
    network.golden_tolerance = 1e-9;
    std::string message;
    try {
      const Model model(network, find_kernels());
    } catch (const FormatError& error) {
      message = error.what();
    }
    float found = 0, expected = 0;
    double tolerance = 0;
    const char* sentence = "golden: logit 3 is %g, expected %g within %lg";
    CHECK_EQUAL(std::sscanf(message.c_str(), sentence, &found, &expected, &tolerance), 3);
    CHECK(found == right && expected == wrong && tolerance == 1e-9);
  }
}

// Searches refuse numbers beyond 10^15, wherever they come from.
void check_search_range() {
  Builder b(source(), 3, 2);
  const int points = b.points(), squares = b.function(points, Function::square);
  const int near = b.gather(points, b.nearest(squares, squares, random::kNone, random::at_most(4), 1));
  const int bits = b.sign(b.pool(near, Pool::max, Over::points, false));
  b.bilinear_float(pool_of(b, bits, 20, Pool::max, true), 2, Activation::none);
  Network network = b.network;
  CHECK(set_golden(network));
  Engines engines(network);
  for (const float number : {3e7f, 3.3e7f, 1e20f, 3e38f, -3.3e7f}) {
    std::vector<float> cloud = random::random_cloud(source(), 100, 3, true);
    cloud[200] = number;
    CHECK(expected_values(network, cloud, true, -1).has_value() == (number == 3e7f));
    engines.check(cloud, true);
  }
}

void check_many_threads() {
  Network network = vanilla(3, 64, 128, 256, Pool::max, true);
  CHECK(set_golden(network));
  const Model model(network, find_kernels());
  std::vector<std::vector<float>> clouds, expected;
  for (int i = 0; i < 8; ++i) {
    clouds.push_back(random::random_cloud(source(), 100 + 300 * i, 3, true));
    expected.emplace_back(7);
    model.predict(clouds.back().data(), 1, clouds.back().size() / 3, true, 1, -1, expected.back().data());
  }
  std::vector<int> wrong(8);
  at_once(wrong.size(), [&](std::size_t t) {
    for (std::size_t i = 0; i < 80; ++i) {
      const std::size_t c = (t + i) % 8;
      std::vector<float> logits(7);
      model.predict(clouds[c].data(), 1, clouds[c].size() / 3, true, 1 + i % 2, -1, logits.data());
      wrong[t] += logits != expected[c];
    }
  });
  for (const int w : wrong) CHECK_EQUAL(w, 0);
}

// Two transforms: of the coordinates, and of the features that the first one gives.
Network with_transforms() {
  Builder b(source(), 3, 5);
  const int points = b.points();
  const int first = pool_of(b, b.sign(b.dense(points, 30, Activation::hardtanh)), 50, Pool::max, true);
  const int features = b.dense(transformed(b, points, first), 20, Activation::hardtanh);
  const int second = pool_of(b, b.bilinear(b.sign(features), 70), 90, Pool::max, true);
  const int bits = b.bilinear(b.sign(transformed(b, features, second)), 66);
  b.bilinear_float(pool_of(b, bits, 99, Pool::max, false), 5, Activation::relu);
  return b.network;
}

// A mix gives slots that repeat a neighbor numbers of their own, and their order matters, also below a maximum.
Network mixed() {
  Builder b(source(), 3, 4);
  const int points = b.points(), k = 6;
  const int indices = b.ball(points, points, points, random::exactly(k), 0.4, Order::nearest);
  const int mixed = b.mix(b.dense(points, k * k, Activation::none), b.gather(points, indices));
  const int bits = b.sign(b.pool(mixed, Pool::max, Over::neighbors, false), 0.25f);
  b.bilinear_float(pool_of(b, bits, 50, Pool::mean, false), 4, Activation::none);
  return b.network;
}

// The signs of mixed slots, flattened.
Network flattened(int k, Order order) {
  Builder b(source(), 3, 4);
  const int points = b.points();
  const int indices = b.nearest(points, points, points, random::exactly(k), 1);
  const int mixed = b.mix(b.dense(points, k * k, Activation::none), b.gather(points, indices));
  const int bits = b.flatten(b.sign(mixed, 0.25f), order);
  b.bilinear_float(pool_of(b, bits, 50, Pool::mean, false), 4, Activation::none);
  return b.network;
}

// Elements that are multiplied as a whole: counts of more than 8 bits, times one factor each, next to gathered floats.
// Only the signs of the sums are read, also of groups that are larger than a block. `again`: a later pass reads the
// counts too.
Network summed(int k, bool again) {
  Builder b(source(), 3, 4);
  const int points = b.points();
  const int inputs = 300, ones = b.sign(b.dense(points, inputs, Activation::hardtanh), -1.5f);
  const int indices = b.nearest(points, points, points, random::at_most(k), 1);
  const int wide = 64;  // so many that the second pass loads them instead of counting again
  const int agreeing = b.bilinear_float(b.gather(ones, indices), wide, Activation::none);
  const std::uint64_t row[] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull >> (320 - inputs)};
  for (std::size_t m = 0; m < wide; m += 2) std::copy_n(row, 5, b.last().bits.begin() + static_cast<long>(5 * m));
  b.last().line.assign(2 * wide, 0.125);
  const int offsets = b.arithmetic(Op::subtract, b.gather(points, indices), b.broadcast(points, indices));
  const int scaled = b.arithmetic(Op::multiply, b.gather(b.slice(points, 0, 1), indices),
                                  b.concat({agreeing, b.gather(points, indices)}));
  int bits = b.sign(b.outer(b.dense(offsets, 5, Activation::none), scaled), 0.5f);
  if (again) {
    const int later = b.broadcast(b.bilinear_float(bits, wide, Activation::none), indices);
    const int sum = b.arithmetic(Op::add, agreeing, later);
    bits = b.concat({bits, b.sign(b.pool(sum, Pool::max, Over::points, false))});
  }
  b.bilinear_float(pool_of(b, bits, 50, Pool::mean, false), 4, Activation::none);
  return b.network;
}

// Groups with few and with many true neighbors. The last channels are zeros of both signs, whose maximum is +0: its
// reciprocal shows the sign.
Network shifted_floats(int k, Over over, bool shifted) {
  Builder b(source(), 3, 4);
  const int points = b.points(), zeros = b.affine(points, Activation::none);
  for (std::size_t i = 0; i < 6; ++i) b.last().line[i] = i % 2 == 0 ? 0.0 : -0.0;
  const int indices = b.ball(points, points, points, random::at_most(k), 0.5, Order::nearest);
  const int floats = b.pool(b.gather(b.concat({points, zeros}), indices), Pool::max, over, shifted);
  const int inverse = b.function(floats, Function::reciprocal);
  b.bilinear_float(pool_of(b, b.sign(b.concat({floats, inverse})), 50, Pool::mean, false), 4, Activation::none);
  return b.network;
}

}  // namespace

int main() {
  for (const int first : {1, 7, 63, 64, 65}) {
    check_sizes(vanilla(3, first, 100, 130, Pool::max, true), {1, 2, 63, 200});
    check_sizes(distinct(first, true), {1, 2, 63, 200, 1000});
  }
  check_sizes(vanilla(3, 64, 128, 200, Pool::max, true), {1, 2, 63, 511, 512, 513, 2000, 5000});
  check_sizes(vanilla(6, 20, 31, 45, Pool::max, false), {1, 130, 513});
  check_sizes(vanilla(3, 40, 64, 70, Pool::mean, false), {1, 63, 513, 1100});
  check_sizes(with_transforms(), {1, 65, 600, 2001});
  check_sizes(mixed(), {1, 2, 20, 65, 300});
  for (const int k : {1, 5, 31, 32, 33, 70}) {
    for (const Order order : {Order::slots, Order::channels}) check_sizes(flattened(k, order), {1, 20, 65});
  }
  for (const int k : {5, 66, 300}) {
    for (const bool again : {false, true}) check_sizes(summed(k, again), {1, 20, 65, 310});
  }
  for (const int k : {5, 20, 66, 130, 600}) {
    for (const Over over : {Over::points, Over::neighbors}) {
      for (const bool shifted : {false, true}) check_sizes(shifted_floats(k, over, shifted), {1, 20, 65, 300});
    }
  }
  check_extremes();
  check_copies();
  check_thinning();
  check_ranks();
  check_chosen_ranks();
  check_normalizing(Normalize::mean);
  check_normalizing(Normalize::box);
  check_predicts_only();
  check_errors();
  check_search_range();
  check_many_threads();
  return check_report();
}
