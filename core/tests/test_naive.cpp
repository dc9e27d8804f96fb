// The interpreter of naive.h and the random programs, without the engine: the reader accepts the programs, values are
// what their declarations say, and small cases that can be computed by hand.
#include "check.h"
#include "format/network.h"
#include "naive.h"
#include "network_text.h"
#include "random_program.h"
#include "random_templates.h"

using namespace bipointnet;

namespace {

bool same(const SizeRule& a, const SizeRule& b) {
  return a.factor == b.factor && a.rounding == b.rounding && a.least == b.least && a.most == b.most;
}

bool same(const Domain& a, const Domain& b) {
  return a.type == b.type && a.parent == b.parent && a.source == b.source && same(a.count, b.count) &&
         a.capped == b.capped;
}

bool same(const Value& a, const Value& b) {
  return a.name == b.name && a.kind == b.kind && a.domain == b.domain && a.channels == b.channels;
}

bool same(const Operation& a, const Operation& b) {
  return a.op == b.op && a.in == b.in && a.out == b.out && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.groups == b.groups && a.activation == b.activation && a.function == b.function && a.pool == b.pool &&
         a.over == b.over && a.shifted == b.shifted && a.order == b.order && a.guard == b.guard &&
         a.dilation == b.dilation && a.from == b.from && a.to == b.to && a.at == b.at && a.slope == b.slope &&
         a.radius == b.radius && a.bandwidth == b.bandwidth && a.epsilon == b.epsilon && a.bits == b.bits &&
         a.threshold == b.threshold && a.line == b.line && a.weight == b.weight && a.bias == b.bias;
}

template <class Item>
bool all_same(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Item& x, const Item& y) { return same(x, y); });
}

// The reader infers the domains, kinds and channels that the builder states.
void check_round_trip(Network network) {
  network.golden_points = 3;
  network.golden_seed = 11;
  network.golden_tolerance = 0.5;
  network.golden.assign((network.per_point() ? 3 : 1) * network.classes.size(), 0.25f);
  const Bytes bytes = packed(network).bytes();
  try {
    const Network read = parse(bytes.data(), bytes.size());
    CHECK(all_same(read.domains, network.domains));
    CHECK(all_same(read.values, network.values));
    CHECK(all_same(read.operations, network.operations));
    CHECK(read.task == network.task && read.classes == network.classes && read.categories == network.categories);
    CHECK(read.channels == network.channels && read.normalize == network.normalize && read.golden == network.golden);
  } catch (const FormatError& error) {
    CHECK_EQUAL(std::string(error.what()), "a network");
    std::cerr << text_of(network);
  }
}

// The first c slots of a group are distinct, the others repeat the first.
bool are_groups(const naive::Value& value) {
  const std::size_t slots = value.rows / value.counts.size();
  for (std::size_t i = 0; i < value.counts.size(); ++i) {
    const std::uint32_t *group = &value.indices[i * slots], *end = group + slots;
    if (value.counts[i] < 1 || value.counts[i] > slots) return false;
    std::vector<std::uint32_t> neighbors(group, group + value.counts[i]);
    std::sort(neighbors.begin(), neighbors.end());
    if (std::adjacent_find(neighbors.begin(), neighbors.end()) != neighbors.end()) return false;
    if (std::count(group + value.counts[i], end, group[0]) != end - (group + value.counts[i])) return false;
  }
  return true;
}

void check_values(const Network& network, const std::vector<float>& cloud) {
  const std::vector<std::size_t> sizes = network.sizes(cloud.size() / size(network.channels));
  std::vector<naive::Value> values;
  try {
    values = naive::run(network, cloud, false, network.categories.empty() ? -1 : 0);
  } catch (const naive::Refused&) {
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& declared = network.values[i];
    const naive::Value& found = values[i];
    CHECK(found.kind == declared.kind);
    CHECK_EQUAL(found.columns, size(declared.channels));
    CHECK_EQUAL(found.rows, sizes[size(declared.domain)]);
    CHECK_EQUAL(found.floats.size() + found.bits.size() + found.indices.size(), found.rows * found.columns);
    if (found.kind != Kind::indices) continue;
    const std::size_t source = sizes[size(network.domains[size(declared.domain)].source)];
    CHECK(*std::max_element(found.indices.begin(), found.indices.end()) < source);
    if (!found.counts.empty()) CHECK(are_groups(found));
  }
}

void check_programs() {
  for (int seed = 0; seed < 300; ++seed) {
    random::Source source(static_cast<std::uint64_t>(seed));
    const Network network = seed % 2 == 0 ? random::random_program(source)
                                          : random::Templates(source, {70, 20}).by_number(seed / 2);
    check_round_trip(network);
    for (const int points : {1, 2, 40}) {
      check_values(network, random::random_cloud(source, points, network.channels, seed % 4 < 2));
    }
  }
}

naive::Value column(const std::vector<float>& numbers) {
  naive::Value value = naive::floats_of(numbers.size(), 1);
  value.floats = numbers;
  return value;
}

using Indices = std::vector<std::uint32_t>;

// Points on a line, where neighbors can be seen.
void check_line() {
  const naive::Value points = column({0, 1, 3, 7, 3}), centers = column({2.9f, -5}), ties = column({5, 4, 3, 2, 1});
  CHECK((naive::nearest(centers, points, nullptr, 3, 1).indices == Indices{2, 4, 1, 0, 1, 2}));
  CHECK((naive::nearest(centers, points, &ties, 3, 1).indices == Indices{4, 2, 1, 0, 1, 4}));
  const naive::Groups dilated = naive::nearest(centers, points, nullptr, 4, 2);
  CHECK((dilated.indices == Indices{2, 1, 3, 2, 0, 2, 3, 0}));
  CHECK((dilated.counts == Indices{3, 3}));
  const naive::Groups near = naive::ball(centers, points, &ties, 3, 2, Order::nearest);
  CHECK((near.indices == Indices{4, 2, 1, 0, 0, 0}));
  CHECK((near.counts == Indices{3, 1}));
  CHECK((naive::ball(centers, points, &ties, 2, 2, Order::index).indices == Indices{1, 2, 0, 0}));
  // The centroid is 2.8. The gaps after 3 and 0: 0, 1, 2, 0, 2.
  CHECK((naive::farthest(points, 9, Order::coordinates) == Indices{3, 0, 2, 1, 4}));
  CHECK((naive::farthest(points, 4, Order::index) == Indices{0, 3, 2, 1}));
  CHECK((naive::farthest(points, 6, Order::index) == Indices{0, 3, 2, 1, 0, 0}));
  const naive::Value values = column({8, 4, 2, 1, 2});
  CHECK_EQUAL(naive::interpolate(column({0}), points, values, Guard::limit, 0).floats[0], 8.0f);
  CHECK_EQUAL(naive::interpolate(column({1}), column({0, 3}), column({3, 6}), Guard::add, 0).floats[0],
              0.8f * 3 + 0.2f * 6);
  CHECK_EQUAL(naive::density(column({5}), 0.5).floats[0], static_cast<float>(2 / 2.5066282746310002));
}

// The exponential of the format is close to that of the library, and exact at 0.
void check_exponential() {
  double worst = 0;
  for (int i = -7000; i <= 7000; ++i) {
    const double x = i / 10.0;
    worst = std::max(worst, std::abs(naive::exponential(x) / std::exp(x) - 1));
  }
  CHECK(worst < 4e-16);
  CHECK_EQUAL(naive::exponential(0), 1.0);
  CHECK_EQUAL(naive::exponential(-1000), 0.0);
  CHECK(std::isinf(naive::exponential(1000)));
}

// Farthest points in the order of coordinates are the same coordinates for every order of the points.
void check_permutations() {
  random::Source source(5);
  for (int round = 0; round < 20; ++round) {
    naive::Value points = naive::floats_of(40, 3), shuffled = points;
    points.floats = random::random_cloud(source, 40, 3, round % 2 == 0);
    Indices order(40);
    std::iota(order.begin(), order.end(), 0u);
    for (int i = 39; i > 0; --i) std::swap(order[size(i)], order[size(source.below(i + 1))]);
    for (std::size_t i = 0; i < 120; ++i) shuffled.floats[i] = points.number(order[i / 3], i % 3);
    const Indices a = naive::farthest(points, 25, Order::coordinates);
    const Indices b = naive::farthest(shuffled, 25, Order::coordinates);
    for (std::size_t i = 0; i < 75; ++i) CHECK_EQUAL(points.number(a[i / 3], i % 3), shuffled.number(b[i / 3], i % 3));
  }
}

}  // namespace

int main() {
  check_line();
  check_exponential();
  check_permutations();
  check_programs();
  return check_report();
}
