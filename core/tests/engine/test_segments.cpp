// Networks with logits per point: kept bits, categories, batches and large clouds.
#include <algorithm>
#include <string>

#include "at_once.h"
#include "engine_checks.h"
#include "random_builder.h"

using namespace bipointnet;
using random::Builder;

namespace {

random::Source& source() {
  static random::Source source(3);
  return source;
}

void check_sizes(const Network& network, std::initializer_list<int> sizes) { check_network(network, source(), sizes); }

// PointNet for parts: bits of several layers are kept, the fifth is both kept and pooled.
Network parts(bool with_category) {
  Builder b(source(), 3, 6);
  const int points = b.points();
  const int signs = b.sign(b.dense(points, 30, Activation::none));
  const int pooled = b.bilinear_pool(signs, 40, Pool::max, Over::points, true, false);
  const int matrix = b.plus_identity(b.bilinear_float(pooled, 9, Activation::none), 3);
  const int first = b.sign(b.dense(b.transform(points, matrix, 3), 20, Activation::hardtanh));
  const int second = b.bilinear(first, 65);
  const int floats = b.bilinear_float(second, 22, Activation::hardtanh);
  const int inner = b.bilinear_pool(b.bilinear(first, 31), 50, Pool::max, Over::points, true, false);
  const int square = b.plus_identity(b.bilinear_float(inner, 22 * 22, Activation::none), 22);
  const int fourth = b.bilinear(b.sign(b.transform(floats, square, 22)), 64);
  const int cloud = b.bilinear_pool(fourth, 140, Pool::max, Over::points, true, true);
  std::vector<int> kept = {first, second, b.sign(floats), fourth, cloud + 1, b.broadcast(cloud, points)};
  if (with_category) kept.insert(kept.begin() + 3, b.broadcast(b.category(5), first));
  b.dense(b.bilinear_float(b.bilinear(b.concat(kept), 70), 33, Activation::hardtanh), 6, Activation::none);
  b.network.task = with_category ? Task::part : Task::semantic;
  return b.network;
}

// More than one part of the inputs, and more than one batch of outputs, in every kernel.
Network wide() {
  Builder b(source(), 3, 4);
  const int first = b.sign(b.dense(b.points(), 64, Activation::none));
  const int second = b.bilinear(first, 300);
  const int cloud = b.bilinear_pool(second, 520, Pool::max, Over::points, true, true);
  const int kept = b.concat({b.broadcast(cloud, first), cloud + 1, second, first});
  b.dense(b.bilinear_float(b.bilinear(kept, 270), 260, Activation::relu), 4, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

// Nothing is kept and nothing is pooled.
Network alone(int first) {
  Builder b(source(), 3, 3);
  b.bilinear_float(b.bilinear(b.sign(b.dense(b.points(), first, Activation::none)), 40), 3, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

// The cloud itself as logits.
Network nothing() {
  Builder b(source(), 3, 3);
  b.points();
  b.network.task = Task::semantic;
  return b.network;
}

// Bits of a coarser level at every point of a group, and of the cloud at every point.
Network levels() {
  Builder b(source(), 3, 5);
  const int points = b.points(), first = b.sign(b.dense(points, 40, Activation::none));
  const int coarse = b.farthest(points, {0.25, Rounding::ceil, 1, 64}, Order::coordinates);
  const int centers = b.gather(points, coarse);
  const int near = b.ball(centers, points, points, random::at_most(20), 0.5, Order::nearest);
  const int own = b.gather(first, coarse);
  const int around = b.concat({b.gather(first, near), b.broadcast(own, near)});
  const int pooled = b.bilinear_pool(around, 66, Pool::max, Over::neighbors, true, true);
  const int counted = b.bilinear_pool(pooled + 1, 30, Pool::mean, Over::neighbors, false, false);
  const int features = b.bilinear_float(b.concat({pooled, counted, own}), 24, Activation::hardtanh);
  const int cloud = b.bilinear_pool(pooled, 33, Pool::max, Over::distinct, true, false);
  const int fine = b.sign(b.interpolate(points, centers, features, Guard::clamp, 0x1p-26f));
  b.bilinear_float(b.concat({fine, first, b.broadcast(cloud, points)}), 5, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

void check_categories() {
  Network network = parts(true);
  CHECK(set_golden(network));
  const Model model(network, find_kernels());
  const std::vector<float> cloud = random::random_cloud(source(), 40, 3, false);
  std::vector<float> logits(model.logits(1, 40));
  const auto error = [&](const Model& asked, int category) {
    try {
      asked.predict(cloud.data(), 1, 40, true, 1, category, logits.data());
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  CHECK_EQUAL(error(model, 0), "");
  CHECK_EQUAL(error(model, 4), "");
  CHECK_EQUAL(error(model, 5), "category 5, expected one from 0 to 4");
  CHECK_EQUAL(error(model, -1), "no category, expected one from 0 to 4");
  CHECK_EQUAL(error(model, -7), "category -7, expected one from 0 to 4");
  network = parts(false);
  CHECK(set_golden(network));
  const Model without(network, find_kernels());
  CHECK_EQUAL(error(without, -1), "");
  CHECK_EQUAL(error(without, 0), "category 0, expected none: the model has no categories");
}

// Batches, and many threads at once.
void check_many_clouds(Network network, std::size_t points) {
  CHECK(set_golden(network));
  const Model model(network, find_kernels());
  const int category = network.categories.empty() ? -1 : 1;
  const std::size_t clouds = 6;
  const std::vector<float> numbers = random::random_cloud(source(), static_cast<int>(points * clouds), 3, true);
  std::vector<float> one_by_one(model.logits(clouds, points)), together(one_by_one.size());
  for (std::size_t i = 0; i < clouds; ++i) {
    model.predict(&numbers[3 * points * i], 1, points, true, 1, category, &one_by_one[i * model.logits(1, points)]);
  }
  for (const unsigned threads : {1u, 3u, 8u}) {
    std::fill(together.begin(), together.end(), 0.0f);
    model.predict(numbers.data(), clouds, points, true, threads, category, together.data());
    CHECK(together == one_by_one);
  }
  std::vector<int> wrong(4);
  at_once(wrong.size(), [&](std::size_t t) {
    std::vector<float> logits(model.logits(1, points));
    for (std::size_t i = 0; i < 3 * clouds; ++i) {
      const std::size_t c = (t + i) % clouds;
      model.predict(&numbers[3 * points * c], 1, points, true, 1 + i % 2, category, logits.data());
      wrong[t] += !std::equal(logits.begin(), logits.end(), &one_by_one[c * logits.size()]);
    }
  });
  for (const int w : wrong) CHECK_EQUAL(w, 0);
}

// The logits of a point do not depend on where it is in a large cloud, if nothing is pooled.
void check_large_clouds() {
  Network network = alone(50);
  CHECK(set_golden(network));
  const int points = kSmallMemory ? 3000 : 30000;
  const std::vector<float> cloud = random::random_cloud(source(), points, 3, true);
  for (const Kernels* kernels : available_kernels()) {
    const Model model(network, *kernels);
    std::vector<float> all(model.logits(1, size(points))), one(3);
    model.predict(cloud.data(), 1, size(points), true, 2, -1, all.data());
    for (std::size_t i = 0; i < size(points); i += 997) {
      model.predict(&cloud[3 * i], 1, 1, true, 1, -1, one.data());
      CHECK(std::equal(one.begin(), one.end(), &all[3 * i]));
    }
  }
}

// Logits that are not finite are an error: of the file for the golden cloud, of the input for any other.
void check_infinite_logits() {
  Builder b(source(), 3, 3);
  b.dense(b.points(), 3, Activation::none);
  Network network = b.network;
  network.task = Task::semantic;
  network.operations.back().weight.assign(9, 1e20f);
  network.operations.back().bias.assign(3, 0);
  CHECK(set_golden(network));
  Network broken = network;
  broken.operations.back().weight.assign(9, 3e38f);
  broken.golden_tolerance = 1e300;
  std::vector<float> clouds(2 * 3 * 600, 0.0f), logits(2 * 3 * 600);
  clouds.back() = 1e30f;
  for (const Kernels* kernels : available_kernels()) {
    std::string file;
    const Model model(network, *kernels);
    const auto error_of = [&](const float* cloud, std::size_t count) -> std::string {
      try {
        model.predict(cloud, count, 600, true, 1, -1, logits.data());
      } catch (const InputError& error) {
        return error.what();
      }
      return "";
    };
    const std::string sentence = "logits that are not finite, expected a cloud with smaller coordinates";
    CHECK_EQUAL(error_of(clouds.data(), 1), "");
    CHECK_EQUAL(error_of(clouds.data() + 3 * 600, 1), sentence);
    CHECK_EQUAL(error_of(clouds.data(), 2), "cloud 1: " + sentence);
    try {
      const Model refused(broken, *kernels);
    } catch (const FormatError& error) {
      file = error.what();
    }
    CHECK_EQUAL(file, "golden: logits that are not finite, expected finite logits");
  }
}

}  // namespace

int main() {
  for (const bool with_category : {true, false}) check_sizes(parts(with_category), {1, 2, 65, 600, 1300});
  check_sizes(wide(), {1, 130, 515});
  check_sizes(alone(10), {1, 64, 513, 2000});
  check_sizes(alone(65), {3, 600});
  check_sizes(nothing(), {1, 513});
  for (int i = 0; i < 4; ++i) check_sizes(levels(), {1, 2, 3, 4, 66, 300, 700});
  check_categories();
  check_many_clouds(parts(true), 700);
  check_many_clouds(levels(), 200);
  check_large_clouds();
  check_infinite_logits();
  return check_report();
}
