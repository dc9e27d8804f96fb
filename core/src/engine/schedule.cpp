#include <algorithm>

#include "engine/plan.h"

namespace bipointnet {
namespace {

constexpr std::int64_t kCheap = 1024;  // multiply-adds per element that are cheaper than storing the result

class Scheduler {
 public:
  Scheduler(const Network& network, Plan& plan)
      : network_(network),
        plan_(plan),
        level_(network.values.size()),
        ready_(network.values.size()),
        cost_(network.values.size()),
        made_in_(network.values.size(), -1) {}

  void run() {
    mark_written();
    for (std::size_t i = 0; i < network_.operations.size(); ++i) set_levels(static_cast<int>(i));
    add_ends();
    std::stable_sort(plan_.passes.begin(), plan_.passes.end(),
                     [](const Pass& a, const Pass& b) { return a.level < b.level; });
    for (std::size_t p = 0; p < plan_.passes.size(); ++p) fill(static_cast<int>(p));
    plan_.any_order.assign(network_.domains.size(), !plan_.keeps_everything);
    for (const Pass& pass : plan_.passes) {
      if (!pass.maxima || !pass.loads.empty() || !pass.stores.empty()) plan_.any_order[size(pass.domain)] = false;
    }
    order_steps();
  }

 private:
  const Operation& producer(int value) const { return network_.operations[size(plan_.producer[size(value)])]; }
  int domain(int value) const { return network_.values[size(value)].domain; }

  // Whether a pass over the domain of the value computes it; other values over a domain come from elsewhere.
  bool computed_on_elements(int value) const {
    const Operation& made_by = producer(value);
    return type_of(network_, made_by) == Step::Type::pass && domain_of(network_, made_by) == domain(value);
  }

  // Whether operand `i` of an operation is read element by element.
  bool reads_elements(const Operation& operation, std::size_t i) const {
    const int from = domain(operation.in[i]);
    if (from == kCloudDomain || network_.values[size(operation.in[i])].kind == Kind::indices) return false;
    if (type_of(network_, operation) == Step::Type::search) return operation.op != Op::size;
    if (operation.op == Op::broadcast && i == 1) return false;
    // The codes that a pool counts.
    if (operation.over == Over::distinct && i + 1 == operation.in.size()) return !is_code_pool(network_, plan_, operation);
    // All slots of a group are mixed. They are in one block unless the group is larger.
    if (operation.op == Op::mix && i == 1 && network_.domains[size(from)].count.most > plan_.lanes) return true;
    return from != domain_of(network_, operation);
  }

  void mark_written() {
    plan_.written.assign(network_.values.size(), false);
    for (std::size_t v = 0; v < network_.values.size() && plan_.keeps_everything; ++v) {
      plan_.written[v] = domain(static_cast<int>(v)) != kCloudDomain && network_.values[v].kind != Kind::indices;
    }
    for (const Operation& operation : network_.operations) {
      for (std::size_t i = 0; i < operation.in.size(); ++i) {
        if (reads_elements(operation, i)) plan_.written[size(operation.in[i])] = true;
      }
    }
  }

  void set_levels(int index) {
    const Operation& operation = network_.operations[size(index)];
    const Step::Type type = type_of(network_, operation);
    int level = 0;
    std::int64_t cost = 0;
    for (std::size_t i = 0; i < operation.in.size(); ++i) {
      const std::size_t value = size(operation.in[i]);
      if (operation.op == Op::broadcast && i == 1) continue;
      const bool inside = type == Step::Type::pass && domain(operation.in[i]) == domain_of(network_, operation) &&
                          computed_on_elements(operation.in[i]) && !reads_elements(operation, i);
      level = std::max(level, inside ? level_[value] : ready_[value]);
      if (inside) cost += cost_[value];
    }
    const int domain_here = type == Step::Type::pass ? domain_of(network_, operation) : kCloudDomain;
    if (type == Step::Type::pass && domain_here > kPointDomain) level = std::max(level, ready_of_domain(domain_here));
    for (const int out : operation.out) {
      level_[size(out)] = level;
      cost_[size(out)] = cost + own_cost(operation);
      // A pass at this level makes it ready for the next one; the cloud itself is ready from the start.
      const bool later = type == Step::Type::pass && operation.op != Op::points;
      ready_[size(out)] = level + (later ? 1 : 0);
    }
    if (type == Step::Type::pass && reduces(operation.op)) {
      pass_at(domain_here, level).operations.push_back(index);
    }
    levels_of_operations_.push_back(level);
  }

  // The level from which the elements of a domain are known.
  int ready_of_domain(int domain_number) const {
    for (std::size_t v = 0; v < network_.values.size(); ++v) {
      const Value& value = network_.values[v];
      if (value.kind == Kind::indices && value.domain == domain_number) return ready_[v];
    }
    return 0;
  }

  static std::int64_t own_cost(const Operation& operation) {
    const std::int64_t inputs = operation.inputs, outputs = operation.outputs;
    switch (operation.op) {
      case Op::dense: return inputs * outputs / operation.groups;
      case Op::transform: return inputs * outputs;
      case Op::mix: return inputs;
      case Op::bilinear:
      case Op::bilinear_float: return inputs * outputs / operation.groups / 16 + outputs;
      case Op::points:
      case Op::slice: return 0;
      default: return outputs;
    }
  }

  Pass& pass_at(int domain_number, int level) {
    for (Pass& pass : plan_.passes) {
      if (pass.domain == domain_number && pass.level == level) return pass;
    }
    plan_.passes.emplace_back();
    plan_.passes.back().domain = domain_number;
    plan_.passes.back().level = level;
    return plan_.passes.back();
  }

  // Passes also end with what is stored element by element, and with the logits of points.
  void add_ends() {
    for (std::size_t v = 0; v < network_.values.size(); ++v) {
      const int value = static_cast<int>(v);
      if (plan_.written[v] && computed_on_elements(value) && producer(value).op != Op::points) {
        pass_at(domain(value), level_[v]).writes.push_back(value);
      }
    }
    const int logits = network_.operations.back().out.front();
    if (network_.per_point() && computed_on_elements(logits)) pass_at(domain(logits), level_[size(logits)]).logits = true;
  }

  void fill(int number) {
    Pass& pass = plan_.passes[size(number)];
    const std::vector<int> ends = pass.operations;
    pass.maxima = !ends.empty() && pass.writes.empty() && !pass.logits;
    for (const int index : ends) {
      const Operation& operation = network_.operations[size(index)];
      const bool maximum = (operation.op == Op::pool || operation.op == Op::bilinear_pool) &&
                           operation.pool == Pool::max && operation.out.size() == 1;
      pass.maxima &= maximum;
      pass.in_order |= operation.op == Op::outer || (operation.op == Op::pool && operation.pool != Pool::max);
      if (operation.out.size() > 1) made_in_[size(operation.out[1])] = number;
      need_operands(number, operation);
    }
    for (const int value : std::vector<int>(pass.writes)) need(number, value);
    if (pass.logits) need(number, network_.operations.back().out.front());
    // After a mix the slots that repeat an element differ from it.
    for (const int index : pass.operations) pass.maxima &= network_.operations[size(index)].op != Op::mix;
    std::sort(pass.operations.begin(), pass.operations.end());
    const auto first = std::stable_partition(
        pass.operations.begin(), pass.operations.end(),
        [&](int index) { return !is_code_pool(network_, plan_, network_.operations[size(index)]); });
    pass.code_pools = static_cast<std::size_t>(pass.operations.end() - first);
  }

  void need_operands(int number, const Operation& operation) {
    const std::vector<int>& parts = plan_.operations[size(plan_.producer[size(operation.out[0])])].parts;
    for (std::size_t i = 0; i < operation.in.size(); ++i) {
      const int value = operation.in[i];
      if (operation.op == Op::broadcast && i == 1) continue;
      if (operation.op == Op::pool && i == 1) continue;  // its codes are counted before
      if (operation.op == Op::concat && std::find(parts.begin(), parts.end(), value) == parts.end()) continue;
      if (network_.values[size(value)].kind == Kind::indices) continue;
      if (domain(value) == plan_.passes[size(number)].domain) need(number, value);
    }
  }

  // The pass reads a value of its domain: it computes it, or loads what an earlier step has stored.
  void need(int number, int value) {
    Pass& pass = plan_.passes[size(number)];
    const auto add = [](std::vector<int>& list, int item) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
    };
    const int index = plan_.producer[size(value)];
    const Operation& made_by = producer(value);
    if (made_in_[size(value)] == number && made_by.op != Op::points) return;
    const bool written_before = plan_.written[size(value)] && computed_on_elements(value) &&
                                made_by.op != Op::points && !writes(pass, value);
    if (!computed_on_elements(value) || written_before) return add(pass.loads, value);
    const bool view = made_by.op == Op::gather || made_by.op == Op::broadcast || made_by.op == Op::concat ||
                      made_by.op == Op::slice || made_by.op == Op::points;
    const bool stored = network_.values[size(value)].kind == Kind::bits ? !view : !view && cost_[size(value)] > kCheap;
    const int before = made_in_[size(value)];
    if (before >= 0 && before != number && stored) {
      add(plan_.passes[size(before)].stores, value);
      return add(pass.loads, value);
    }
    made_in_[size(value)] = number;
    if (std::find(pass.operations.begin(), pass.operations.end(), index) != pass.operations.end()) return;
    pass.operations.push_back(index);
    need_operands(number, made_by);
  }

  static bool writes(const Pass& pass, int value) {
    return std::find(pass.writes.begin(), pass.writes.end(), value) != pass.writes.end();
  }

  // Level by level: first the operations on the cloud and the searches, in the order of the program, then the passes.
  void order_steps() {
    int last = 0;
    for (const int level : levels_of_operations_) last = std::max(last, level);
    for (int level = 0; level <= last; ++level) {
      for (std::size_t i = 0; i < network_.operations.size(); ++i) {
        const Step::Type type = type_of(network_, network_.operations[i]);
        if (type != Step::Type::pass && levels_of_operations_[i] == level) {
          plan_.steps.push_back({type, static_cast<int>(i)});
        }
      }
      for (std::size_t p = 0; p < plan_.passes.size(); ++p) {
        if (plan_.passes[p].level == level) plan_.steps.push_back({Step::Type::pass, static_cast<int>(p)});
      }
    }
  }

  const Network& network_;
  Plan& plan_;
  std::vector<int> level_;  // per value: the level of the first pass that can compute it
  std::vector<int> ready_;  // per value: the level at which other domains can read it
  std::vector<std::int64_t> cost_;
  std::vector<int> made_in_;  // per value: the pass that computes it first
  std::vector<int> levels_of_operations_;
};

}  // namespace

Step::Type type_of(const Network& network, const Operation& operation) {
  switch (operation.op) {
    case Op::farthest:
    case Op::nearest:
    case Op::ball:
    case Op::interpolate:
    case Op::density:
    case Op::size: return Step::Type::search;
    case Op::pool:
    case Op::bilinear_pool:
    case Op::outer:
    case Op::flatten: return Step::Type::pass;
    default:
      return network.values[size(operation.out[0])].domain == kCloudDomain ? Step::Type::vector : Step::Type::pass;
  }
}

int domain_of(const Network& network, const Operation& operation) {
  const int value = reduces(operation.op) ? operation.in[0] : operation.out[0];
  return network.values[size(value)].domain;
}

bool is_code_pool(const Network& network, const Plan& plan, const Operation& operation) {
  const int domain = network.values[size(operation.in.empty() ? operation.out[0] : operation.in[0])].domain;
  return operation.op == Op::bilinear_pool && operation.over == Over::distinct && operation.out.size() == 1 &&
         network.domains[size(domain)].type == Domain::Type::set && plan.uses_codes;
}

bool reduces(Op op) { return op == Op::pool || op == Op::bilinear_pool || op == Op::outer || op == Op::flatten; }

void schedule(const Network& network, Plan& plan) { Scheduler(network, plan).run(); }

}  // namespace bipointnet
