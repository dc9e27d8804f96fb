#include "format/binding.h"

#include <algorithm>

#include "format/fields.h"
#include "format/saturating.h"
#include "format/text.h"

namespace bipointnet {
namespace {

using Times = OperandRule::Times;
using Type = Domain::Type;

// A domain that an operation made has the name of its indices.
std::string domain_text(const Network& network, int number) {
  const Domain& domain = network.domains[size(number)];
  if (domain.type == Type::cloud) return "the cloud";
  if (domain.source < 0) return "the points";
  const auto made = std::find_if(network.values.begin(), network.values.end(), [&](const Value& value) {
    return value.kind == Kind::indices && value.domain == number;
  });
  return (domain.type == Type::set ? "the set " : "the groups ") + quoted(made->name);
}

bool is_derived(Place place) { return place == Place::parent || place == Place::above || place == Place::not_below; }

// Removes the text up to `separator` from `text` and returns it.
std::string_view cut(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == text.npos ? std::string_view() : text.substr(at + separator.size());
  return first;
}

}  // namespace

std::string text_of(const Network& network, const Value& value) {
  return text_of(kind_bit(value.kind)) + " over " + domain_text(network, value.domain) + " (" +
         std::to_string(value.channels) + ")";
}

Binding::Binding(const Network& network, const OperationRule& rule, const Operation& operation, const std::string& what)
    : network_(network), what_(what) {
  bind("M", static_cast<std::uint64_t>(operation.outputs));
  bind("G", static_cast<std::uint64_t>(operation.groups));
  bind("channels", static_cast<std::uint64_t>(network.channels));
  bind("categories", network.categories.size());
  bind("to - from", static_cast<std::uint64_t>(operation.to - operation.from));
  const auto operand = [&](std::size_t i) -> const Value& { return network.values[size(operation.in[i])]; };
  // Operands over p(d) or an ancestor of d follow those over d.
  for (const bool derived : {false, true}) {
    for (std::size_t i = 0; i < operation.in.size(); ++i) {
      const OperandRule& row = rule.operands[std::min(i, rule.operands.size() - 1)];
      const bool same_kind = row.times == Times::two_or_more && i > 0;
      if (is_derived(row.place) == derived) match(row, same_kind ? kind_bit(operand(0).kind) : row.kinds, operand(i));
    }
  }
  for (std::size_t i = operation.in.size(); i < rule.operands.size(); ++i) {
    letters_.emplace(rule.operands[i].channels, 0);  // a missing operand has no channels
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < operation.in.size(); ++i) sum += static_cast<std::uint64_t>(operand(i).channels);
  bind("sum of the channels", sum);
  if (rule.results[0].channels == std::string_view("larger of K and L")) bind_larger(operand(1));
}

void Binding::match(const OperandRule& rule, Kinds kinds, const Value& value) {
  if ((kinds & kind_bit(value.kind)) == 0) fail_at(value, text_of(kinds));
  match_domain(rule.place, value);
  match_channels(rule.channels, value);
}

// The texts of domains are made only for messages: they search all values.
void Binding::match_domain(Place place, const Value& value) {
  const Domain& found = domain(value.domain);
  switch (place) {
    case Place::set:
    case Place::center_set:
      if (found.type != Type::set) fail_at(value, "a value over a set of points");
      return be(place == Place::set ? set : centers, value);
    case Place::centers:
      if (found.type == Type::groups) fail_at(value, "a value over a set of points or over the cloud");
      return be(centers, value);
    case Place::elements:
      if (found.type == Type::cloud) fail_at(value, "a value over points or groups");
      return be(d, value);
    case Place::fixed_groups:
      if (found.type != Type::groups || !found.count.fixed()) {
        fail_at(value, "a value over groups whose least equals most");
      }
      bind("k", found.count.least);
      return be(d, value);
    case Place::into_set:
      if (found.source != set) fail_at(value, "indices into " + domain_text(network_, set));
      return be(d, value);
    case Place::parent: {
      int parent = domain(d).parent;
      return be(parent, value);
    }
    case Place::above:
      if (!is_above(value.domain, d)) fail_at(value, "a value over an ancestor of " + domain_text(network_, d));
      return;
    case Place::not_below:
      if (value.domain != d && !is_above(value.domain, d)) {
        fail_at(value, "a value over " + domain_text(network_, d) + " or an ancestor of it");
      }
      return;
    default: return be(d, value);
  }
}

void Binding::be(int& letter, const Value& value) {
  if (letter < 0) letter = value.domain;
  if (letter != value.domain) fail_at(value, "a value over " + domain_text(network_, letter));
}

void Binding::match_channels(const std::string& expression, const Value& value) {
  if (expression.empty()) return;
  const auto found = static_cast<std::uint64_t>(value.channels);
  if (expression == "K" || expression == "L") letters_.emplace(expression, found);
  const std::uint64_t expected = this->value(expression);
  if (found != expected) fail_at(value, decimal(expected) + (expected == 1 ? " channel" : " channels"));
}

void Binding::bind_larger(const Value& second) {
  const std::uint64_t first = value("K"), other = value("L");
  if (first != other && first != 1 && other != 1) fail_at(second, decimal(first) + " channels or 1");
  bind("larger of K and L", std::max(first, other));
}

bool Binding::is_above(int above, int below) const {
  for (int at = domain(below).parent; at >= 0; at = domain(at).parent) {
    if (at == above) return true;
  }
  return false;
}

int Binding::domain_of(Place place) const {
  switch (place) {
    case Place::cloud: return 0;
    case Place::points: return 1;
    case Place::set: return set;
    case Place::center_set: return centers;
    case Place::parent: return domain(d).parent;
    default: return d;
  }
}

std::uint64_t Binding::value(std::string_view expression) const {
  const auto whole = letters_.find(expression);
  if (whole != letters_.end()) return whole->second;
  std::uint64_t sum = 0;
  while (!expression.empty()) sum = saturating_sum(sum, product(cut(expression, " + ")));
  return sum;
}

std::uint64_t Binding::product(std::string_view factors) const {
  std::string_view divisor = factors;
  std::string_view rest = cut(divisor, " / ");
  std::uint64_t product = 1;
  while (!rest.empty()) {
    const std::string factor(cut(rest, " "));
    const bool is_number = factor[0] >= '0' && factor[0] <= '9';
    product = saturating_product(product, is_number ? std::stoull(factor) : letters_.at(factor));
  }
  return divisor.empty() ? product : product / letters_.at(std::string(divisor));
}

void Binding::fail_at(const Value& value, const std::string& expected) const {
  fail(what_, "input " + quoted(value.name) + " is " + text_of(network_, value), expected);
}

}  // namespace bipointnet
