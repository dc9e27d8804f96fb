#include "format/operation_fields.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace bipointnet {
namespace {

constexpr double kMaxFactor = 1 << 20;

float exact_float(const Fields& fields, const char* key) {
  const double number = fields.number(key);
  const float rounded = static_cast<float>(number);
  if (static_cast<double>(rounded) != number) fields.fail_at(key, "a number that float32 holds exactly");
  return rounded;
}

// A length: its square, as the search computes it, must be a normal float32.
double length(const Fields& fields, const char* key) {
  const double number = fields.number(key);
  const auto square = static_cast<float>(number * number);
  if (!(number > 0) || !std::isnormal(square)) {
    fields.fail_at(key, "a number above 0 whose square is a normal float32");
  }
  return number;
}

float slope(const Fields& fields) {
  const auto slope = static_cast<float>(fields.number("slope"));
  if (!std::isfinite(slope)) fields.fail_at("slope", "a number within the range of float32");
  return slope;
}

SizeRule size_rule(const Fields& fields, std::int64_t limit) {
  const Fields object(fields.at("count"), fields.what + ": count");
  object.expect_keys({"factor", "round", "least", "most"});
  SizeRule rule;
  rule.factor = object.number("factor");
  if (!(rule.factor >= 0 && rule.factor <= kMaxFactor)) object.fail_at("factor", "a number from 0 to 2^20");
  rule.rounding = object.choice<Rounding>(
      "round", {{"floor", Rounding::floor}, {"ceil", Rounding::ceil}, {"even", Rounding::even}});
  rule.least = static_cast<std::uint32_t>(object.integer("least", 1, limit));
  rule.most = static_cast<std::uint32_t>(object.integer("most", 1, limit));
  if (rule.most < rule.least) object.fail_at("most", "at least " + std::to_string(rule.least) + ", as least says");
  return rule;
}

// The value of a field that is a choice: the row of the table says which of the words the operation accepts.
template <class T>
void choose(const Fields& fields, const FieldRule& rule, std::initializer_list<std::pair<const char*, T>> words,
            T& value) {
  const std::string word = fields.string(rule.name);
  if (std::find(rule.choices.begin(), rule.choices.end(), word) == rule.choices.end()) {
    fields.fail_at(rule.name, alternatives(rule.choices));
  }
  value = std::find_if(words.begin(), words.end(), [&](const auto& known) { return known.first == word; })->second;
}

void read_choice(const Fields& fields, const FieldRule& rule, Operation& to) {
  const std::string_view name = rule.name;
  if (name == "activation") {
    using A = Activation;
    choose(fields, rule, {{"none", A::none}, {"relu", A::relu}, {"hardtanh", A::hardtanh}}, to.activation);
  } else if (name == "function") {
    using F = Function;
    choose(fields, rule,
           {{"relu", F::relu},
            {"hardtanh", F::hardtanh},
            {"leaky_relu", F::leaky_relu},
            {"abs", F::abs},
            {"square", F::square},
            {"sqrt", F::sqrt},
            {"reciprocal", F::reciprocal},
            {"exp", F::exp},
            {"sigmoid", F::sigmoid},
            {"tanh", F::tanh}},
           to.function);
  } else if (name == "pool") {
    choose(fields, rule, {{"max", Pool::max}, {"mean", Pool::mean}, {"sum", Pool::sum}}, to.pool);
  } else if (name == "over") {
    using O = Over;
    choose(fields, rule, {{"points", O::points}, {"neighbors", O::neighbors}, {"distinct", O::distinct}}, to.over);
  } else if (name == "shift") {
    choose(fields, rule, {{"none", false}, {"delta", true}}, to.shifted);
  } else if (name == "order") {
    using O = Order;
    choose(fields, rule,
           {{"coordinates", O::coordinates},
            {"index", O::index},
            {"nearest", O::nearest},
            {"slots", O::slots},
            {"channels", O::channels}},
           to.order);
  } else {
    choose(fields, rule, {{"limit", Guard::limit}, {"add", Guard::add}, {"clamp", Guard::clamp}}, to.guard);
  }
}

int integer(const Fields& fields, const char* key, int low, int high) {
  return static_cast<int>(fields.integer(key, low, high));
}

void read_number(const Fields& fields, const FieldRule& rule, Operation& to) {
  const std::string_view name = rule.name;
  if (name == "outputs") to.outputs = integer(fields, rule.name, 1, kMaxWidth);
  if (name == "groups") to.groups = integer(fields, rule.name, 1, kMaxWidth);
  if (name == "dilation") to.dilation = integer(fields, rule.name, 1, kMaxSlots);
  if (name == "from") to.from = integer(fields, rule.name, 0, kMaxWidth - 1);
  if (name == "to") to.to = integer(fields, rule.name, to.from + 1, kMaxWidth);
  if (name == "at") to.at = exact_float(fields, rule.name);
  if (name == "epsilon") to.epsilon = exact_float(fields, rule.name);
  if (name == "slope") to.slope = slope(fields);
  if (name == "radius") to.radius = length(fields, rule.name);
  if (name == "bandwidth") to.bandwidth = length(fields, rule.name);
}

// Rules between two fields of an operation.
void check_pairs(const Fields& fields, const Operation& operation) {
  if (operation.pool != Pool::max && operation.shifted) {
    fields.fail_at("shift", "none for pool " + fields.string("pool"));
  }
  if (operation.pool != Pool::max && operation.over == Over::distinct) {
    fields.fail_at("over", "points or neighbors for pool " + fields.string("pool"));
  }
  if (operation.function != Function::leaky_relu && operation.slope != 0) {
    fields.fail_at("slope", "0 for function " + fields.string("function"));
  }
  if (operation.epsilon < 0) fields.fail_at("epsilon", "0 or more");
  if (operation.guard == Guard::limit && operation.epsilon != 0) fields.fail_at("epsilon", "0 for guard limit");
}

}  // namespace

void read_fields(const Fields& fields, const OperationRule& rule, Operation& operation, SizeRule& count) {
  for (const FieldRule& field : rule.fields) {
    if (!field.choices.empty()) {
      read_choice(fields, field, operation);
    } else if (field.name == std::string_view("count")) {
      count = size_rule(fields, rule.op == Op::farthest ? std::numeric_limits<std::uint32_t>::max() : kMaxSlots);
    } else {
      read_number(fields, field, operation);
    }
  }
  check_pairs(fields, operation);
}

void check_widths(const Fields& fields, const OperationRule& rule, const Operation& operation) {
  const std::string width = std::to_string(operation.inputs);
  if (operation.op == Op::slice && operation.to > operation.inputs) fields.fail_at("to", "at most K = " + width);
  if (operation.op == Op::pool && (operation.over == Over::distinct) != (operation.in.size() == 2)) {
    fields.fail_at("over", operation.in.size() == 2 ? "distinct, as there are codes" : "points or neighbors, as there are no codes");
  }
  if (operation.inputs % operation.groups != 0) fields.fail_at("groups", "a divisor of K = " + width);
  const bool outputs = std::any_of(rule.fields.begin(), rule.fields.end(),
                                   [](const FieldRule& field) { return field.name == std::string_view("outputs"); });
  if (outputs && operation.outputs % operation.groups != 0) {
    fields.fail_at("groups", "a divisor of M = " + std::to_string(operation.outputs));
  }
}

}  // namespace bipointnet
