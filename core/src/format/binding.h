// Matches the operands of an operation with its row of the table: which domains and numbers the letters of the row are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "format/network.h"
#include "format/operations.h"

namespace bipointnet {

// A value as a message shows it: `floats over the points (64)`.
std::string text_of(const Network& network, const Value& value);

class Binding {
 public:
  // Binds the letters of `rule` to the operands of `operation`, and M and G to its fields. Throws FormatError for an
  // operand with a wrong kind, domain or number of channels; its message begins with `what`. The number of operands is
  // already checked.
  Binding(const Network& network, const OperationRule& rule, const Operation& operation, const std::string& what);

  int set = -1, centers = -1, d = -1;  // the domains S, C and d; -1 if the row does not name it

  // The value of an expression: a sum of products such as "C S K + 16 S L" or "M K / G", saturating. "" is 0.
  std::uint64_t value(std::string_view expression) const;

  // Binds a letter, or replaces what it was bound to.
  void bind(const std::string& letter, std::uint64_t value) { letters_[letter] = value; }

  // The domain of a result that is not a new one.
  int domain_of(Place place) const;

 private:
  void match(const OperandRule& rule, Kinds kinds, const Value& value);
  void match_domain(Place place, const Value& value);
  void be(int& letter, const Value& value);  // binds the domain, or compares it
  void match_channels(const std::string& expression, const Value& value);
  void bind_larger(const Value& second);
  bool is_above(int domain, int below) const;
  const Domain& domain(int number) const { return network_.domains[size(number)]; }
  std::uint64_t product(std::string_view factors) const;
  [[noreturn]] void fail_at(const Value& value, const std::string& expected) const;

  const Network& network_;
  std::string what_;
  std::map<std::string, std::uint64_t, std::less<>> letters_;
};

}  // namespace bipointnet
