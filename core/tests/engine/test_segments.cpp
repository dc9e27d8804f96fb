// Networks with logits per point: kept values, joins, categories, and distinct codes.
#include <algorithm>
#include <string>
#include <thread>

#include "naive.h"

using namespace bipointnet;

namespace {

// PointNet for parts: the floats of the third layer are kept and transformed; the fifth is both kept and pooled.
Network parts(bool same_first, bool with_category) {
  Builder b(3, 6);
  b.start();
  b.dense(30, Activation::none);
  b.sign();
  b.pool(40, Pool::max, true);
  b.bilinear_float(9, Activation::none);
  b.matrix(3);
  const std::size_t first = b.network.layers.size();
  b.start();
  b.transform(0);
  b.dense(20, Activation::hardtanh);
  b.sign();
  const std::size_t end = b.network.layers.size();
  b.bilinear(31);
  b.pool(50, Pool::max, true);
  b.bilinear_float(22 * 22, Activation::none);
  b.matrix(22);
  if (same_first) {
    b.repeat(first, end);
  } else {
    b.start();
    b.transform(0);
    b.dense(20, Activation::none);
    b.sign();
  }
  b.keep();
  b.bilinear(65);
  b.keep();
  b.bilinear_float(22, Activation::hardtanh);
  b.keep();
  b.transform(1);
  b.sign();
  b.bilinear(64);
  b.keep();
  b.pool(140, Pool::max, true, true);
  b.keep();
  std::vector<int> joined = {0, 1, 2, 3, 4, 5};
  if (with_category) {
    b.category(5);
    b.keep();
    joined.insert(joined.begin() + 3, 6);
  }
  b.join(joined);
  b.bilinear(70);
  b.bilinear_float(33, Activation::hardtanh);
  b.dense(6, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

// More than one part of the inputs, and more than one batch of outputs, in every kernel.
Network wide() {
  Builder b(3, 4);
  b.start();
  b.dense(64, Activation::none);
  b.sign();
  b.keep();
  b.bilinear(300);
  b.keep();
  b.pool(520, Pool::max, true, true);
  b.keep();
  b.join({3, 2, 1, 0});
  b.bilinear(270);
  b.bilinear_float(260, Activation::relu);
  b.dense(4, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

// A pass that ends with point floats and keeps nothing.
Network alone(int first) {
  Builder b(3, 3);
  b.start();
  b.dense(first, Activation::none);
  b.sign();
  b.bilinear(40);
  b.bilinear_float(3, Activation::none);
  b.network.task = Task::semantic;
  return b.network;
}

// The cloud itself as logits.
Network nothing() {
  Builder b(3, 3);
  b.start();
  b.network.task = Task::semantic;
  return b.network;
}

// Adds an operation that makes bits of points.
void bits_of_points(Builder& b) {
  if (below(4) == 0) b.keep();
  if (below(3) == 0) {
    b.compare(0.25f);
  } else {
    b.sign();
  }
}

void random_pass(Builder& b, bool first) {
  b.start();
  if (!first && below(2) == 0) b.transform(0);
  b.dense(below(3) == 0 ? 66 + below(10) : 1 + below(64), below(2) == 0 ? Activation::none : Activation::relu);
  if (below(6) == 0) {
    b.sign_scaled();
    b.bilinear_float(1 + below(40), Activation::hardtanh, Op::bilinear_scaled);
  }
  bits_of_points(b);
  for (int step = below(4); step > 0; --step) {
    if (below(2) == 0) b.keep();
    if (below(3) == 0) {
      b.bilinear_float(1 + below(70), Activation::hardtanh);
      bits_of_points(b);
    } else {
      b.bilinear(1 + below(140));
    }
  }
  b.keep();
  const Pool pool = below(5) == 0 ? Pool::mean : Pool::max;
  b.pool(1 + below(150), pool, pool == Pool::max && below(2) == 0, below(2) == 0);
  if (!first && below(2) == 0) b.bilinear(1 + below(50));
  if (first) {
    b.keep();
    b.bilinear_float(9, Activation::none);
    b.matrix(3);
  } else {
    b.keep();
  }
}

void random_join(Builder& b) {
  std::vector<int> numbers;
  while (numbers.empty()) {
    for (int i = 0; i < static_cast<int>(b.network.kept.size()); ++i) {
      if (below(3) != 0) numbers.push_back(i);
    }
    const auto of_points = [&](int number) { return b.network.kept[at(number)].on_points; };
    if (std::none_of(numbers.begin(), numbers.end(), of_points)) numbers.clear();
  }
  std::shuffle(numbers.begin(), numbers.end(), rng());
  b.join(numbers);
}

Network random_program() {
  Builder b(3 + below(4), 2 + below(5));
  const int classes = static_cast<int>(b.network.classes.size());
  for (int pass = 0; pass < 1 + below(3); ++pass) random_pass(b, pass == 0);
  if (below(2) == 0) {
    b.category(1 + below(70));
    b.keep();
  }
  random_join(b);
  if (below(3) == 0) {
    b.bilinear(1 + below(90));
    b.pool(1 + below(80), below(4) == 0 ? Pool::mean : Pool::max, false, below(2) == 0);
    b.keep();
    random_join(b);
  }
  if (below(3) == 0) b.keep();
  for (int step = below(3); step > 0; --step) b.bilinear(1 + below(90));
  b.bilinear_float(classes, Activation::none);
  if (below(2) == 0) b.dense(classes, Activation::none);
  b.network.task = Task::semantic;
  if (below(5) == 0) {
    b.pool_floats(below(2) == 0 ? Pool::mean : Pool::max);
    b.network.task = Task::classify;
  }
  return b.network;
}

void check_categories() {
  Network network = parts(true, true);
  set_golden(network);
  const Model model(network, find_kernels());
  const std::vector<float> cloud = random_cloud(40, 3, false);
  std::vector<float> logits(model.logits(1, 40)), others(logits.size());
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
  network = parts(true, false);
  set_golden(network);
  const Model without(network, find_kernels());
  CHECK_EQUAL(error(without, -1), "");
  CHECK_EQUAL(error(without, 0), "category 0, expected none: the model has no categories");
}

// Batches, and many threads at once.
void check_many_clouds() {
  Network network = parts(true, true);
  set_golden(network);
  const Model model(network, find_kernels());
  const std::size_t points = 700, clouds = 6;
  const std::vector<float> numbers = random_cloud(static_cast<int>(points * clouds), 3, true);
  std::vector<float> one_by_one(model.logits(clouds, points)), together(one_by_one.size());
  for (std::size_t i = 0; i < clouds; ++i) {
    model.predict(&numbers[3 * points * i], 1, points, true, 1, 1, &one_by_one[i * model.logits(1, points)]);
  }
  for (const unsigned threads : {1u, 3u}) {
    std::fill(together.begin(), together.end(), 0.0f);
    model.predict(numbers.data(), clouds, points, true, threads, 1, together.data());
    CHECK(together == one_by_one);
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> logits(model.logits(1, points));
      for (std::size_t i = 0; i < 3 * clouds; ++i) {
        const std::size_t c = (t + i) % clouds;
        model.predict(&numbers[3 * points * c], 1, points, true, 1 + i % 2, 1, logits.data());
        wrong[t] += !std::equal(logits.begin(), logits.end(), &one_by_one[c * logits.size()]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int w : wrong) CHECK_EQUAL(w, 0);
}

// Logits that are not finite are an error: of the file for the golden cloud, of the input for any other.
void check_infinite_logits() {
  Network network = nothing();
  network.layers.push_back(Layer(network.layers[0]));
  Layer& dense = network.layers.back();
  dense.op = Op::dense;
  dense.inputs = 3;
  dense.on_points = true;
  dense.weight.assign(9, 1e20f);
  dense.bias.assign(3, 0);
  set_golden(network);
  network.golden_tolerance = 1e300;
  Network broken = network;
  broken.layers.back().weight.assign(9, 3e38f);
  std::vector<float> cloud(3 * 600, 0.0f), logits(3 * 600);
  cloud[3 * 599] = 1e30f;
  for (const Kernels* kernels : available_kernels()) {
    std::string input, file;
    const Model model(network, *kernels);
    try {
      model.predict(cloud.data(), 1, 600, true, 1, -1, logits.data());
    } catch (const InputError& error) {
      input = error.what();
    }
    CHECK_EQUAL(input, "logits that are not finite, expected a cloud with smaller coordinates");
    try {
      const Model refused(broken, *kernels);
    } catch (const FormatError& error) {
      file = error.what();
    }
    CHECK(file.find("golden: logits that are not finite") == 0);
  }
}

}  // namespace

int main() {
  for (const bool same_first : {true, false}) check_network(parts(same_first, same_first), {1, 2, 65, 600, 1300});
  check_network(wide(), {1, 130, 515});
  check_network(alone(10), {1, 64, 513, 2000});
  check_network(alone(65), {3, 600});
  check_network(nothing(), {1, 513});
  for (int i = 0; i < 24; ++i) check_network(random_program(), {1 + below(3), 2 * (30 + below(60)), 513 + below(200)});
  check_categories();
  check_many_clouds();
  check_infinite_logits();
  return check_report();
}
