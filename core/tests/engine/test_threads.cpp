// The parallel loop runs every item once, also if there is no memory for its threads.
#include <algorithm>
#include <array>

#include "check.h"
#include "engine/threads.h"
#include "failing_new.h"

using namespace bipointnet;

namespace {

constexpr std::size_t kItems = 8;

// Whichever allocation fails: without the list of threads the loop refuses, and without a thread the others do the work.
void check_failing_allocations() {
  for (long spare = 0; spare < 8; ++spare) {
    std::array<int, kItems> calls{};
    const bool runs = succeeds_after(spare, [&] { parallel_for(kItems, 4, [&](std::size_t i) { ++calls[i]; }); });
    CHECK_EQUAL(std::count(calls.begin(), calls.end(), runs ? 1 : 0), static_cast<std::ptrdiff_t>(kItems));
    CHECK(runs || spare == 0);
  }
}

}  // namespace

int main() {
  check_failing_allocations();
  return check_report();
}
