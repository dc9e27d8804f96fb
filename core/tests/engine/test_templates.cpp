// Programs that look like real networks, with random sizes, for clouds around the sizes of blocks.
#include "engine_checks.h"
#include "random_templates.h"

using namespace bipointnet;

namespace {

constexpr double kMostWork = kSmallMemory ? 5e6 : 5e7;  // of one run of the interpreter

// A template that is cheap enough for `points` points.
Network affordable(random::Source& source, int number, int points) {
  for (const random::Sizes& sizes : {random::Sizes{300, 130}, {130, 40}, {65, 16}, {24, 8}}) {
    Network network = random::Templates(source, sizes).by_number(number);
    if (naive_cost(network, points) <= kMostWork) return network;
  }
  return random::Templates(source, {8, 3}).by_number(number);
}

}  // namespace

int main() {
  random::Source source(1);
  for (const int points : {1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1000, 3000}) {
    if (points > (kSmallMemory ? 200 : 600) && slow()) break;
    for (int number = 0; number < random::Templates::kCount; ++number) {
      check_network(affordable(source, number, points), source, {points});
    }
  }
  const int rounds = kSmallMemory ? 1 : slow() ? 4 : 20;
  for (int number = 0; number < rounds * random::Templates::kCount; ++number) {
    const int points = source.between(1, 130);
    check_network(affordable(source, number, points), source, {points, source.between(1, points)});
  }
  return check_report();
}
