#include "format/cost.h"

#include <algorithm>
#include <new>

#include "format/binding.h"
#include "format/fields.h"
#include "format/operations.h"
#include "format/saturating.h"

namespace bipointnet {
namespace {

constexpr std::uint64_t kMaxWeighted = std::uint64_t{1} << 34;
constexpr std::uint64_t kMaxWords = std::uint64_t{1} << 28;  // of 32 bits, so 1 GiB
constexpr std::uint64_t kBlock = 512;  // elements of the largest block that the engine computes at once
constexpr std::uint64_t kBitsPerFloat = 64;
constexpr std::uint64_t kFloatsPerDistance = 4;

// The memory of all values together, in words of 32 bits. A block is computed as a whole, also for few elements. A pool
// whose shift depends on the group has tables with two numbers per output and number of neighbors.
std::uint64_t words_of(const Network& network, const std::vector<std::size_t>& sizes) {
  std::uint64_t words = 0;
  for (const Value& value : network.values) {
    const auto channels = static_cast<std::uint64_t>(value.channels);
    const std::uint64_t per_element = value.kind == Kind::bits ? (channels + 31) / 32 : channels;
    const bool in_blocks = network.domains[size(value.domain)].type != Domain::Type::cloud;
    const std::uint64_t elements = std::max<std::uint64_t>(sizes[size(value.domain)], in_blocks ? kBlock : 1);
    words = saturating_sum(words, saturating_product(elements, per_element));
  }
  for (const Operation& operation : network.operations) {
    if (operation.op != Op::bilinear_pool || !operation.shifted || operation.over == Over::points) continue;
    const Domain& domain = network.domains[size(network.values[size(operation.in[0])].domain)];
    if (domain.type != Domain::Type::groups) continue;
    const auto outputs = static_cast<std::uint64_t>(operation.outputs);
    words = saturating_sum(words, 2 * outputs * (std::uint64_t{domain.count.most} + 1));
  }
  return words;
}

[[noreturn]] void fail_limit(const Network& network, const std::string& found, std::uint64_t limit) {
  fail("golden", found + " for " + std::to_string(network.golden_points) + " points", "at most " + decimal(limit));
}

}  // namespace

std::uint64_t Cost::weighted() const {
  return saturating_sum(saturating_sum(float_multiply_adds, bit_multiply_adds / kBitsPerFloat),
                        saturating_product(distances, kFloatsPerDistance));
}

Cost cost(const Network& network, const Operation& operation, const std::vector<std::size_t>& sizes) {
  const OperationRule& rule = rule_of(operation.op);
  Binding binding(network, rule, operation, rule.name);
  const auto bind = [&](const char* letter, int domain) {
    if (domain >= 0) binding.bind(letter, sizes[size(domain)]);
  };
  bind("S", binding.set);
  bind("C", binding.centers);
  bind("d", binding.d);
  bind("out", network.values[size(operation.out[0])].domain);
  return {binding.value(rule.cost.floats), binding.value(rule.cost.bits), binding.value(rule.cost.distances)};
}

void check_golden_cost(const Network& network) {
  std::vector<std::size_t> sizes;
  try {
    sizes = network.sizes(size(network.golden_points));
  } catch (const std::bad_alloc&) {
    fail_limit(network, "values that no memory can hold", kMaxWords);
  }
  const std::uint64_t words = words_of(network, sizes);
  if (words > kMaxWords) fail_limit(network, "values and thresholds of " + decimal(words) + " words", kMaxWords);
  std::uint64_t weighted = 0;
  for (const Operation& operation : network.operations) {
    weighted = saturating_sum(weighted, cost(network, operation, sizes).weighted());
  }
  if (weighted > kMaxWeighted) fail_limit(network, decimal(weighted) + " weighted multiply-adds", kMaxWeighted);
}

}  // namespace bipointnet
