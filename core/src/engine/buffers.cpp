// Where the values of a pass are in the buffers of a block.
#include <algorithm>
#include <utility>

#include "engine/plan.h"

namespace bipointnet {
namespace {

class Placement {
 public:
  Placement(const Network& network, const Plan& plan, Pass& pass)
      : network_(network), plan_(plan), pass_(pass), last_(network.values.size()) {}

  // A value gets the first free channels, which become free again after its last reader.
  void run() {
    pass_.places.assign(network_.values.size(), -1);
    for (const int value : pass_.stores) pass_.places[size(value)] = kStored;
    for (std::size_t i = 0; i < pass_.operations.size(); ++i) {
      for (const int value : operation(i).in) extend(value, i);
      if (pass_.counted[i] < 0) continue;
      for (const int value : network_.operations[size(pass_.counted[i])].in) extend(value, i);
    }
    const std::size_t end = pass_.operations.size();
    for (const int value : pass_.writes) extend(value, end);
    if (pass_.logits) extend(network_.operations.back().out.front(), end);
    for (std::size_t i = 0; i < pass_.loads.size(); ++i) {
      const int sign = pass_.load_signs[i];
      place(sign < 0 ? pass_.loads[i] : network_.operations[size(sign)].out[0], end);
    }
    for (std::size_t i = 0; i < pass_.operations.size(); ++i) {
      for (const int value : operation(i).out) {
        const bool own = network_.values[size(value)].domain == pass_.domain;
        if (own && pass_.signs[i] < 0 && has_buffer(operation(i).op, value)) place(value, last_[size(value)]);
      }
      if (pass_.signs[i] >= 0 && pass_.flattened[i] < 0) {
        const int value = network_.operations[size(pass_.signs[i])].out[0];
        place(value, last_[size(value)]);
      }
      const auto done = [&](const auto& item) { return item.second <= i; };
      live_.erase(std::remove_if(live_.begin(), live_.end(), done), live_.end());
    }
  }

 private:
  const Operation& operation(std::size_t i) const { return network_.operations[size(pass_.operations[i])]; }

  // A slice is a part of its operand, which must live as long. So must the operands of what is computed by elements.
  void extend(int value, std::size_t reader) {
    last_[size(value)] = std::max(last_[size(value)], reader);
    const Operation& made_by = network_.operations[size(plan_.producer[size(value)])];
    if (network_.values[size(value)].domain != pass_.domain) return;
    if (made_by.op != Op::slice && !pass_.by_elements[size(value)]) return;
    for (const int operand : made_by.in) {
      if (network_.values[size(operand)].domain == pass_.domain) extend(operand, reader);
    }
  }

  // The buffer of a layer that is computed by elements is for its counts.
  bool has_buffer(Op op, int value) const {
    if (pass_.by_elements[size(value)]) return op == Op::bilinear_float;
    return op != Op::points && op != Op::slice;
  }

  void place(int value, std::size_t last) {
    if (pass_.places[size(value)] != -1) return;
    const Value& wanted = network_.values[size(value)];
    std::vector<std::pair<std::size_t, std::size_t>> taken;  // first channels and ends, sorted
    for (const auto& item : live_) {
      const Value& known = network_.values[size(item.first)];
      const std::size_t first = size(pass_.places[size(item.first)]);
      if (known.kind == wanted.kind) taken.emplace_back(first, first + size(known.channels));
    }
    std::sort(taken.begin(), taken.end());
    std::size_t free = 0;
    for (const auto& [first, end] : taken) {
      if (free + size(wanted.channels) <= first) break;
      free = std::max(free, end);
    }
    std::size_t& most = wanted.kind == Kind::floats ? pass_.float_channels : pass_.bit_channels;
    most = std::max(most, free + size(wanted.channels));
    pass_.places[size(value)] = static_cast<int>(free);
    live_.emplace_back(value, last);
  }

  const Network& network_;
  const Plan& plan_;
  Pass& pass_;
  std::vector<std::size_t> last_;                   // per value: the position of its last reader
  std::vector<std::pair<int, std::size_t>> live_;  // values with buffers, and their last readers
};

}  // namespace

// Whether a pass loads a value element by element, not in blocks.
bool loads_elements(const Network& network, const Plan& plan, const Pass& pass, int value) {
  const Operation& made_by = network.operations[size(plan.producer[size(value)])];
  const bool on_elements = type_of(network, made_by) == Step::Type::pass && domain_of(network, made_by) == pass.domain;
  return plan.written[size(value)] || !on_elements;
}

void place_buffers(const Network& network, Plan& plan) {
  for (Pass& pass : plan.passes) {
    Placement(network, plan, pass).run();
    pass.indexed = pass.domain != kPointDomain || !pass.writes.empty();
    for (const int value : pass.loads) pass.indexed |= loads_elements(network, plan, pass, value);
    plan.float_channels = std::max(plan.float_channels, pass.float_channels);
    plan.bit_channels = std::max(plan.bit_channels, pass.bit_channels);
  }
}

}  // namespace bipointnet
