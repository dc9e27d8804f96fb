// The table of operations: each row defines the operands, results, fields, tensors and the cost of one operation, and
// the reader follows it. docs/format.md says what an operation computes.
//
// Letters stand for domains (S, C, d and its parent p(d)) and for numbers: K and L channels of operands, M the channels
// of the first result, G the field groups, k the slots of the groups d. A letter means the same everywhere in a row.
#pragma once

#include <string>
#include <vector>

#include "format/network.h"
#include "format/tensors.h"

namespace bipointnet {

constexpr int kMaxWidth = 32766;  // channels of a value, outputs, classes
constexpr int kMaxSlots = 4096;   // `most` of the neighbors of a group, and `dilation`

// Kinds that an operand may have.
using Kinds = unsigned;
constexpr Kinds kFloats = 1, kBits = 2, kIndices = 4, kAnyKind = 7;
constexpr Kinds kind_bit(Kind kind) { return kind == Kind::floats ? kFloats : kind == Kind::bits ? kBits : kIndices; }

// The domain of an operand or of a result.
enum class Place {
  cloud,         // the cloud
  points,        // the input points
  set,           // S, a set
  centers,       // C, a set or the cloud
  center_set,    // C, a set
  any,           // d
  elements,      // d, not the cloud
  fixed_groups,  // d, groups whose number of slots k does not depend on the cloud
  into_set,      // d, whose indices refer to S
  parent,        // p(d)
  above,         // an ancestor of d
  not_below,     // d or an ancestor of d
  new_set,       // a set that the operation makes
  new_groups,    // groups of C that the operation makes
};

struct OperandRule {
  enum class Times { once, optional, two_or_more };
  const char* name;
  Kinds kinds;
  Place place;
  const char* channels;  // an expression in letters; "" for any number
  Times times = Times::once;
};

// `kinds` with floats and bits: the kind of the first operand.
struct ResultRule {
  Kinds kinds;
  Place place;
  const char* channels;
  bool optional = false;
};

// A choice between words, or a value that `values` describes.
struct FieldRule {
  const char* name;
  std::vector<std::string> choices;
  const char* values = "";
};

struct TensorRule {
  enum class Type { bits, thresholds, floats };
  const char* name;
  Type type;
  std::vector<Dtype> dtypes;
  const char* rows;          // expressions in letters
  const char* columns = "";  // "" for a tensor with one dimension
  bool of_second_result = false;
};

// Expressions; d, S, C and `out` (the first result) are numbers of elements here.
struct CostRule {
  const char* floats = "";     // multiply-adds of floats
  const char* bits = "";       // multiply-adds of bits
  const char* distances = "";  // squares of differences, and comparisons of coordinates
};

struct OperationRule {
  const char* name;
  Op op;
  std::vector<OperandRule> operands;
  std::vector<ResultRule> results;
  std::vector<FieldRule> fields;
  std::vector<TensorRule> tensors;
  CostRule cost;
};

const std::vector<OperationRule>& operation_rules();  // in the order of Op
const OperationRule& rule_of(Op op);

std::string text_of(Kinds kinds);  // "floats or bits"
std::string text_of(Place place);  // "a set S"

// A row of the table as text, for people and for Python.
struct OperationText {
  std::string op;
  std::vector<std::string> operands, results, fields, tensors, cost;
};
std::vector<OperationText> operation_texts();

}  // namespace bipointnet
