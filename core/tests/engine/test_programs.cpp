// Random programs over all operations and domains.
#include "engine_checks.h"
#include "random_program.h"

using namespace bipointnet;

namespace {

constexpr double kMostWork = 3e7;  // of one run of the interpreter

void check_program(std::uint64_t seed, const random::Bounds& bounds, std::initializer_list<int> sizes) {
  random::Source source(seed);
  Network network = random::random_program(source, bounds);
  if (!set_golden(network)) return check_refused(network);
  Engines engines(network);
  for (const int points : sizes) {
    if (naive_cost(network, points) > kMostWork) continue;
    engines.check(random::random_cloud(source, points, network.channels, source.one_in(2)), source.one_in(2));
  }
}

}  // namespace

int main() {
  const std::uint64_t step = kSmallMemory ? 20 : slow() ? 5 : 1;
  for (std::uint64_t seed = 0; seed < 250; seed += step) check_program(seed, {80, 24, 3, 4, 24}, {1, 2, 9, 65, 130});
  for (std::uint64_t seed = 1000; seed < 1060; seed += step) check_program(seed, {40, 8, 2, 2, 14}, {257, 512, 1000});
  for (std::uint64_t seed = 2000; seed < 2060; seed += step) check_program(seed, {300, 130, 2, 2, 10}, {1, 129, 300});
  for (std::uint64_t seed = 3000; seed < 3100; seed += step) check_program(seed, {12, 5, 6, 10, 60}, {1, 3, 64});
  return check_report();
}
