// Neighbor searches equal their definition, on every instruction set and with any number of threads.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "engine/cloud.h"
#include "kernels/dispatch.h"
#include "search/naive_search.h"

using namespace bipointnet;
using search::Groups;
using search::Rows;
using search::Searches;

namespace {

struct Numbers {
  std::vector<float> numbers;
  std::size_t channels;
  Rows rows() const { return {numbers.data(), numbers.size() / channels, channels}; }
};

enum class Shape { normal, lattice, copies, line, far_pair };
constexpr Shape kShapes[] = {Shape::normal, Shape::lattice, Shape::copies, Shape::line, Shape::far_pair};

// `lattice`: many equal distances, and -0; `copies`: few distinct points; `line`: only the first channel varies;
// `far_pair`: two points are so far away that all others are in few places of the grid.
Numbers draw(std::mt19937& random, Shape shape, std::size_t count, std::size_t channels) {
  Numbers drawn{std::vector<float>(count * channels), channels};
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < drawn.numbers.size(); ++i) {
    float& x = drawn.numbers[i];
    x = normal(random);
    if (shape == Shape::lattice) x = std::round(x);
    if (shape == Shape::copies) x = x < 0 ? -0.25f : 0.5f;
    if (shape == Shape::line && i % channels != 0) x = 1;
    if (shape == Shape::far_pair && i / channels >= 2) x *= 0x1p-20f;
    if (shape == Shape::far_pair && i / channels < 2) x *= 100;
  }
  return drawn;
}

void check_groups(const Groups& found, const Groups& expected) {
  CHECK_EQUAL(found.slots, expected.slots);
  CHECK(found.counts == expected.counts);
  CHECK(found.indices == expected.indices);
}

// The same neighbors in any order, the first in its place.
void check_sets(Groups found, const Groups& expected) {
  CHECK(found.counts == expected.counts);
  Groups sorted = expected;
  for (std::size_t i = 0; i < expected.counts.size(); ++i) {
    CHECK_EQUAL(found.indices[i * found.slots], expected.indices[i * found.slots]);
    for (Groups* groups : {&found, &sorted}) {
      const auto begin = groups->indices.begin() + static_cast<std::ptrdiff_t>(i * groups->slots);
      std::sort(begin, begin + static_cast<std::ptrdiff_t>(groups->slots));
    }
  }
  CHECK(found.indices == sorted.indices);
}

void check_nearest(const Kernels& kernels, const Numbers& centers, const Numbers& points, const Numbers& ties,
                   std::size_t slots, std::size_t dilation) {
  const auto found = [&](Rows c, Rows t, unsigned threads) {
    return Searches(kernels, threads).nearest(c, points.rows(), t, slots, dilation);
  };
  for (const Rows t : {Rows{}, points.rows(), ties.rows()}) {
    check_groups(found(centers.rows(), t, 1), naive::nearest(centers.rows(), points.rows(), t, slots, dilation));
  }
  check_groups(found(points.rows(), points.rows(), 2),
               naive::nearest(points.rows(), points.rows(), points.rows(), slots, dilation));
}

void check_ball(const Kernels& kernels, const Numbers& centers, const Numbers& points, std::size_t slots,
                double radius) {
  for (const Order order : {Order::nearest, Order::index}) {
    for (const Rows ties : {Rows{}, points.rows()}) {
      const Groups expected = naive::ball(centers.rows(), points.rows(), ties, slots, radius, order);
      const auto found = [&](bool sorted) {
        return Searches(kernels, 1).ball(centers.rows(), points.rows(), ties, slots, radius, order, sorted);
      };
      check_groups(found(true), expected);
      check_sets(found(false), expected);
    }
  }
}

void check_density(const Kernels& kernels, const Numbers& points, double bandwidth) {
  std::vector<float> found(points.rows().count);
  Searches(kernels, 1).density(points.rows(), bandwidth, found.data());
  CHECK(found == naive::density(points.rows(), bandwidth));
}

void check_interpolate(const Kernels& kernels, const Numbers& centers, const Numbers& points, const Numbers& values) {
  for (const Guard guard : {Guard::limit, Guard::add, Guard::clamp}) {
    const float epsilon = guard == Guard::limit ? 0 : 0x1p-20f;
    std::vector<float> found(centers.rows().count * values.channels);
    Searches(kernels, 1).interpolate(centers.rows(), points.rows(), values.rows(), guard, epsilon, found.data());
    CHECK(found == naive::interpolate(centers.rows(), points.rows(), values.rows(), guard, epsilon));
  }
}

void check_farthest(const Kernels& kernels, const Numbers& points, std::size_t count) {
  for (const Order order : {Order::coordinates, Order::index}) {
    CHECK(Searches(kernels, 1).farthest_points(points.rows(), count, order) ==
          naive::farthest_points(points.rows(), count, order));
  }
}

void test_all_equal_their_definition(const Kernels& kernels) {
  std::mt19937 random(1);
  const std::size_t counts[] = {1, 2, 3, 31, 33, 64, 100, 300}, channels[] = {1, 2, 3, 4, 6, 9};
  for (const std::size_t n : counts) {
    for (const std::size_t c : channels) {
      for (const Shape shape : kShapes) {
        const Numbers points = draw(random, shape, n, c), centers = draw(random, shape, 1 + n / 3, c);
        const Numbers ties = draw(random, Shape::lattice, n, 2), values = draw(random, Shape::normal, n, 5);
        check_nearest(kernels, centers, points, ties, 1 + n / 4, 1 + n % 3);
        check_ball(kernels, centers, points, 1 + n / 8, 0.5 + static_cast<double>(n % 5) / 4);
        check_interpolate(kernels, centers, points, values);
        check_farthest(kernels, points, 1 + n / 2);
        check_density(kernels, points, 0.3);
      }
    }
  }
}

void test_nearest_in_feature_spaces(const Kernels& kernels) {
  std::mt19937 random(2);
  for (std::size_t c = 1; c <= 70; ++c) {
    const Shape shape = kShapes[c % 5];
    const std::size_t n = 20 + 3 * c;
    const Numbers points = draw(random, shape, n, c), centers = draw(random, shape, 7, c);
    check_nearest(kernels, centers, points, draw(random, Shape::normal, n, 3), c % 9 + 1, 1);
  }
  for (const std::size_t c : {16u, 64u, 129u, 600u}) {
    const std::size_t n = kSmallMemory && c == 600 ? 750 : 1500;
    const Numbers points = draw(random, Shape::normal, n, c), centers = draw(random, Shape::normal, 9, c);
    const auto check = [&](Rows around, std::size_t slots) {
      check_groups(Searches(kernels, 1).nearest(around, points.rows(), points.rows(), slots, 1),
                   naive::nearest(around, points.rows(), points.rows(), slots, 1));
    };
    check(centers.rows(), 20);
    check(centers.rows(), 200);
  }
}

void test_more_is_asked_than_there_is(const Kernels& kernels) {
  std::mt19937 random(3);
  for (const std::size_t c : {3u, 20u}) {
    for (const Shape shape : kShapes) {
      const Numbers points = draw(random, shape, 10, c), centers = draw(random, shape, 5, c);
      check_nearest(kernels, centers, points, draw(random, shape, 10, 3), 32, 1);
      check_nearest(kernels, centers, points, draw(random, shape, 10, 3), 7, 4096);
      check_ball(kernels, centers, points, 64, 100.0);
      check_ball(kernels, centers, points, 3, 1e-6);
      check_farthest(kernels, points, 10);
      check_farthest(kernels, points, 25);
    }
  }
}

// More centers than one thread takes at once; large groups, which are not sorted by counting.
void test_threads_do_not_matter(const Kernels& kernels) {
  std::mt19937 random(4);
  constexpr std::size_t n = 1100;
  const Numbers points = draw(random, Shape::normal, n, 3), features = draw(random, Shape::lattice, n, 40);
  std::vector<float> density(n), again(n);
  Searches(kernels, 1).density(points.rows(), 0.1, density.data());
  CHECK(density == naive::density(points.rows(), 0.1));
  const Rows p = points.rows(), f = features.rows();
  const Groups near = naive::nearest(p, p, p, 150, 1), similar = naive::nearest(f, f, p, 20, 2),
               inside = naive::ball(p, p, p, 200, 0.9, Order::nearest);
  // The first equal distances are those around the last center: a point with the same neighbor on two sides.
  Numbers late = points;
  const float pair[] = {50, 0, 0, 52, 0, 0, 51, 0, 0};
  late.numbers.insert(late.numbers.end(), pair, pair + 9);
  const Rows l = late.rows();
  const Groups tied = naive::ball(l, l, l, 2, 1.5, Order::nearest);
  const Groups small = naive::ball(p, p, p, 20, 0.9, Order::nearest);
  for (unsigned threads = 1; threads <= 4; ++threads) {
    check_sets(Searches(kernels, threads).ball(l, l, l, 2, 1.5, Order::nearest, false), tied);
    check_sets(Searches(kernels, threads).ball(p, p, p, 20, 0.9, Order::nearest, false), small);
    check_groups(Searches(kernels, threads).nearest(p, p, p, 150, 1), near);
    check_groups(Searches(kernels, threads).nearest(f, f, p, 20, 2), similar);
    check_groups(Searches(kernels, threads).ball(p, p, p, 200, 0.9, Order::nearest, true), inside);
    Searches(kernels, threads).density(p, 0.1, again.data());
    CHECK(again == density);
  }
}

template <class Work>
void check_refused(const Work& work, const std::string& part) {
  std::string message = "accepted";
  try {
    work();
  } catch (const InputError& error) {
    message = error.what();
  }
  CHECK(message.find(part) != std::string::npos);
}

// Searches that share their points, with centers inside and outside of their box, find what single searches find.
void test_searches_share_points(const Kernels& kernels) {
  std::mt19937 random(6);
  for (const Shape shape : kShapes) {
    for (const std::size_t n : {5u, 200u}) {
      const Numbers points = draw(random, shape, n, 3), far = draw(random, Shape::normal, 9, 3);
      const Numbers ties = draw(random, Shape::lattice, n, 3);
      const Rows p = points.rows();
      Numbers some{{}, 3};
      Searches searches(kernels, 1);
      const std::vector<std::uint32_t> chosen = searches.farthest_points(p, n / 4, Order::coordinates);
      CHECK(chosen == naive::farthest_points(p, n / 4, Order::coordinates));
      for (const std::uint32_t i : chosen) {
        some.numbers.insert(some.numbers.end(), p.numbers + 3 * i, p.numbers + 3 * i + 3);
      }
      std::vector<float> density(n);
      for (const Rows centers : {some.rows(), far.rows(), some.rows(), p}) {
        check_sets(searches.ball(centers, p, p, 4, 0.7, Order::nearest, false),
                   naive::ball(centers, p, p, 4, 0.7, Order::nearest));
        check_groups(searches.ball(centers, p, ties.rows(), 4, 0.7, Order::index, true),
                     naive::ball(centers, p, ties.rows(), 4, 0.7, Order::index));
        check_groups(searches.nearest(centers, p, ties.rows(), 3, 1), naive::nearest(centers, p, ties.rows(), 3, 1));
        check_groups(searches.nearest(centers, p, p, 3, 1), naive::nearest(centers, p, p, 3, 1));
        searches.density(p, 0.2, density.data());
        CHECK(density == naive::density(p, 0.2));
        CHECK(searches.farthest_points(p, n, Order::index) == naive::farthest_points(p, n, Order::index));
        const Numbers bad{{0, 0, std::numeric_limits<float>::quiet_NaN()}, 3};
        check_refused([&] { searches.nearest(bad.rows(), p, p, 3, 1); }, "channel 2 of center 0");
        std::vector<float> mixed(centers.count * 3);
        searches.interpolate(centers, p, points.rows(), Guard::limit, 0, mixed.data());
        CHECK(mixed == naive::interpolate(centers, p, points.rows(), Guard::limit, 0));
      }
    }
  }
}

// Equal rows with as many channels as a file may have, or as fit into a small memory.
void test_wide_rows(const Kernels& kernels) {
  constexpr std::size_t channels = kSmallMemory ? 8000 : 32766;
  Numbers wide{std::vector<float>(3 * channels, 0.5f), channels};
  wide.numbers.back() = -1;  // the third one is first
  CHECK(Searches(kernels, 1).nearest(wide.rows(), wide.rows(), wide.rows(), 1, 1).indices ==
        (std::vector<std::uint32_t>{0, 0, 2}));
  CHECK(Searches(kernels, 1).farthest_points(wide.rows(), 3, Order::coordinates) ==
        naive::farthest_points(wide.rows(), 3, Order::coordinates));
}

// The selection of keys: labels, evenly spread distances, and keys that differ in their last bits only.
void test_select_keys(const Kernels& kernels) {
  std::mt19937_64 random(7);
  for (const int count : {2, 3, 9, 40, 128, 300}) {
    for (const int wanted : {1, 2, count / 2, count - 1}) {
      if (wanted < 1 || wanted >= count) continue;
      for (const int kind : {0, 1, 2}) {
        std::vector<std::int64_t> keys(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < keys.size(); ++i) {
          const double square = static_cast<double>(random() % 1000 * 1024 + i);
          std::memcpy(&keys[i], &square, sizeof square);
          if (kind == 0) keys[i] = static_cast<std::int64_t>(i);
          if (kind == 2) keys[i] = 0x4330000000000000 + static_cast<std::int64_t>(i);
        }
        std::shuffle(keys.begin(), keys.end(), random);
        std::vector<std::int64_t> sorted = keys;
        std::sort(sorted.begin(), sorted.end());
        keys.resize(keys.size() + kKeyPad);
        const Border border = kernels.search.select_keys(keys.data(), count, wanted);
        CHECK_EQUAL(border.below, sorted[static_cast<std::size_t>(wanted) - 1]);
        CHECK_EQUAL(border.above, sorted[static_cast<std::size_t>(wanted)]);
        std::sort(keys.begin(), keys.begin() + wanted);
        CHECK(std::equal(keys.begin(), keys.begin() + wanted, sorted.begin()));
      }
    }
  }
}

void test_hostile_numbers_are_refused(const Kernels& kernels) {
  const float kHostile[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e16f};
  for (const float hostile : kHostile) {
    std::mt19937 random(5);
    const Numbers good = draw(random, Shape::normal, 40, 3);
    Numbers bad = good;
    bad.numbers[3 * 39 + 1] = hostile;
    const Rows g = good.rows(), b = bad.rows();
    std::vector<float> out(200);
    check_refused([&] { Searches(kernels, 1).farthest_points(b, 5, Order::coordinates); }, "channel 1 of point 39");
    check_refused([&] { Searches(kernels, 1).nearest(b, g, g, 5, 1); }, "channel 1 of center 39");
    check_refused([&] { Searches(kernels, 1).nearest(g, b, g, 5, 1); }, "channel 1 of point 39");
    check_refused([&] { Searches(kernels, 1).nearest(g, g, b, 5, 1); }, "channel 1 of tie 39");
    check_refused([&] { Searches(kernels, 1).ball(g, b, g, 5, 1, Order::index, true); }, "channel 1 of point 39");
    check_refused([&] { Searches(kernels, 1).density(b, 1, out.data()); }, "channel 1 of point 39");
    check_refused([&] { Searches(kernels, 1).interpolate(b, g, g, Guard::limit, 0, out.data()); }, "center 39");
  }
  const Numbers large{{-1e15f, 0, 1e15f, 1e-30f, 5, 1e15f}, 3};
  check_groups(Searches(kernels, 1).nearest(large.rows(), large.rows(), large.rows(), 2, 1),
               Groups{2, {0, 1, 1, 0}, {2, 2}});
}

}  // namespace

int main() {
  for (const Kernels* kernels : available_kernels()) {
    test_all_equal_their_definition(*kernels);
    test_nearest_in_feature_spaces(*kernels);
    test_more_is_asked_than_there_is(*kernels);
    test_threads_do_not_matter(*kernels);
    test_searches_share_points(*kernels);
    test_wide_rows(*kernels);
    test_select_keys(*kernels);
    test_hostile_numbers_are_refused(*kernels);
  }
  return check_report();
}
