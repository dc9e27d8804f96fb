// The invariants of a network that the engine relies on. A fuzz target aborts if the reader returns another one.
#pragma once

#include <cstddef>
#include <vector>

#include "format/network.h"

namespace bipointnet::fuzz {

inline bool sound_tensors(const Operation& operation) {
  const Op op = operation.op;
  const bool pools = op == Op::bilinear_pool, binary = op == Op::bilinear || op == Op::bilinear_float || pools;
  const bool bounded = op == Op::bilinear || (pools && operation.out.size() == 2);
  const bool lined = op == Op::affine || op == Op::bilinear_float || pools, dense = op == Op::dense;
  const std::size_t outputs = size(operation.outputs), groups = size(operation.groups);
  if (operation.groups < 1 || operation.outputs < 1) return false;
  if ((binary || dense) && (size(operation.inputs) % groups != 0 || outputs % groups != 0)) return false;
  const std::size_t inputs = size(operation.inputs) / groups;
  return operation.bits.size() == (binary ? outputs * words_for(inputs) : 0) &&
         operation.threshold.size() == (bounded ? outputs : 0) && operation.line.size() == (lined ? 2 * outputs : 0) &&
         operation.weight.size() == (dense ? outputs * inputs : 0) && operation.bias.size() == (dense ? outputs : 0);
}

// Domains come after their parent and their source; the cloud and the input points come first.
inline bool sound_domains(const Network& network) {
  const std::vector<Domain>& domains = network.domains;
  if (domains.size() < 2 || domains[0].type != Domain::Type::cloud) return false;
  if (domains[1].type != Domain::Type::set) return false;
  for (std::size_t i = 1; i < domains.size(); ++i) {
    const Domain& domain = domains[i];
    if (domain.parent < 0 || size(domain.parent) >= i || domains[size(domain.parent)].type == Domain::Type::groups) {
      return false;
    }
    if (i == 1 ? domain.source != -1 : domain.source < 1 || size(domain.source) >= i) return false;
    if (i > 1 && domains[size(domain.source)].type != Domain::Type::set) return false;
    if (domain.count.least < 1 || domain.count.least > domain.count.most) return false;
  }
  return true;
}

// Every value is made once, before it is read, and all but the logits are read.
inline bool sound_values(const Network& network) {
  std::vector<bool> made(network.values.size()), read(network.values.size());
  for (const Operation& operation : network.operations) {
    for (const int value : operation.in) {
      if (value < 0 || size(value) >= made.size() || !made[size(value)]) return false;
      read[size(value)] = true;
    }
    for (const int value : operation.out) {
      if (value < 0 || size(value) >= made.size() || made[size(value)]) return false;
      made[size(value)] = true;
    }
    const bool starts = operation.in.empty();
    if (operation.out.empty() || starts != (operation.op == Op::points || operation.op == Op::category)) return false;
    if (operation.outputs != network.values[size(operation.out[0])].channels) return false;
    if (operation.inputs != (starts ? 0 : network.values[size(operation.in[0])].channels)) return false;
    if (!sound_tensors(operation)) return false;
  }
  const std::size_t logits = size(network.operations.back().out[0]);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Value& value = network.values[i];
    if (!made[i] || read[i] == (i == logits) || value.channels < 1) return false;
    if (value.domain < 0 || size(value.domain) >= network.domains.size()) return false;
  }
  const Value& value = network.values[logits];
  return value.kind == Kind::floats && value.domain == (network.per_point() ? 1 : 0) &&
         size(value.channels) == network.classes.size();
}

inline bool sound(const Network& network) {
  bool categories = false;
  for (const Operation& operation : network.operations) categories |= operation.op == Op::category;
  const std::size_t rows = network.per_point() ? size(network.golden_points) : 1;
  return !network.operations.empty() && sound_domains(network) && sound_values(network) &&
         categories == !network.categories.empty() &&
         (network.task == Task::part || (!categories && network.parts.empty())) &&
         network.golden.size() == rows * network.classes.size();
}

}  // namespace bipointnet::fuzz
