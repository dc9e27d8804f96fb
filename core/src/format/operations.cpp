#include "format/operations.h"

#include "format/fields.h"

namespace bipointnet {
namespace {

using Times = OperandRule::Times;
using Type = TensorRule::Type;

constexpr Kinds kFloatsOrBits = kFloats | kBits;

const FieldRule kActivation{"activation", {"none", "relu", "hardtanh"}};
const FieldRule kShift{"shift", {"none", "delta"}};
const FieldRule kOutputs{"outputs", {}, "an integer from 1 to 32766"};
const FieldRule kGroups{"groups", {}, "an integer of at least 1 that divides K and M"};
const FieldRule kSlots{"count", {}, "a size rule with most up to 4096"};
const FieldRule kFunction{
    "function", {"relu", "hardtanh", "leaky_relu", "abs", "square", "sqrt", "reciprocal", "exp", "sigmoid", "tanh"}};

const OperandRule kCenters{"centers", kFloats, Place::centers, "K"};
const OperandRule kPoints{"points", kFloats, Place::set, "K"};
const OperandRule kTies{"ties", kFloats, Place::set, "L", Times::optional};
const OperandRule kLeft{"a", kFloats, Place::any, "K"};
const OperandRule kRight{"b", kFloats, Place::any, "L"};
const OperandRule kX{"x", kFloats, Place::any, "K"};
const OperandRule kBitsX{"x", kBits, Place::any, "K"};

const ResultRule kNeighbors{kIndices, Place::new_groups, "1"};
const ResultRule kLarger{kFloats, Place::any, "larger of K and L"};
const ResultRule kSameFloats{kFloats, Place::any, "K"};
const ResultRule kOutputFloats{kFloats, Place::any, "M"};

const TensorRule kBitWeight{"weight", Type::bits, {Dtype::u64}, "M", "K / G"};
const TensorRule kThreshold{"threshold", Type::thresholds, {Dtype::i16}, "M"};

const char* const kSearch = "C S K + 16 S L";  // every pair, and the order of the ties

}  // namespace

const std::vector<OperationRule>& operation_rules() {
  static const std::vector<OperationRule> rules = {
      {"points", Op::points, {}, {{kFloats, Place::points, "channels"}}, {}, {}, {}},
      {"category", Op::category, {}, {{kBits, Place::cloud, "categories"}}, {}, {}, {}},
      {"farthest",
       Op::farthest,
       {kPoints},
       {{kIndices, Place::new_set, "1"}},
       {{"count", {}, "a size rule with most up to 4294967295"}, {"order", {"coordinates", "index"}}},
       {},
       {"", "", "out S K + 16 S K"}},
      {"nearest",
       Op::nearest,
       {kCenters, kPoints, kTies},
       {kNeighbors},
       {kSlots, {"dilation", {}, "an integer from 1 to 4096"}},
       {},
       {"", "", kSearch}},
      {"ball",
       Op::ball,
       {kCenters, kPoints, kTies},
       {kNeighbors},
       {kSlots, {"radius", {}, "a number above 0 whose square is a normal float32"}, {"order", {"nearest", "index"}}},
       {},
       {"", "", kSearch}},
      {"interpolate",
       Op::interpolate,
       {{"centers", kFloats, Place::center_set, "K"}, kPoints, {"values", kFloats, Place::set, "L"}},
       {{kFloats, Place::center_set, "L"}},
       {{"guard", {"limit", "add", "clamp"}}, {"epsilon", {}, "a float32 of at least 0, 0 for limit"}},
       {},
       {"3 C L", "", "C S K + 16 S K"}},
      {"density",
       Op::density,
       {kPoints},
       {{kFloats, Place::set, "1"}},
       {{"bandwidth", {}, "a number above 0 whose square is a normal float32"}},
       {},
       {"16 S S", "", "S S K"}},
      {"gather",
       Op::gather,
       {{"a", kFloatsOrBits, Place::set, "K"}, {"indices", kIndices, Place::into_set, "1"}},
       {{kFloatsOrBits, Place::any, "K"}},
       {},
       {},
       {}},
      {"broadcast",
       Op::broadcast,
       {{"a", kFloatsOrBits, Place::above, "K"}, {"like", kAnyKind, Place::any, ""}},
       {{kFloatsOrBits, Place::any, "K"}},
       {},
       {},
       {}},
      {"flatten",
       Op::flatten,
       {{"a", kFloatsOrBits, Place::fixed_groups, "K"}},
       {{kFloatsOrBits, Place::parent, "k K"}},
       {{"order", {"slots", "channels"}}},
       {},
       {}},
      {"size",
       Op::size,
       {{"a", kAnyKind, Place::elements, ""}},
       {{kFloats, Place::parent, "1"}},
       {{"over", {"points", "neighbors"}}},
       {},
       {}},
      {"concat",
       Op::concat,
       {{"a", kFloatsOrBits, Place::any, "", Times::two_or_more}},
       {{kFloatsOrBits, Place::any, "sum of the channels"}},
       {},
       {},
       {}},
      {"slice",
       Op::slice,
       {{"a", kFloatsOrBits, Place::any, "K"}},
       {{kFloatsOrBits, Place::any, "to - from"}},
       {{"from", {}, "an integer from 0 to K - 1"}, {"to", {}, "an integer from from + 1 to K"}},
       {},
       {}},
      {"add", Op::add, {kLeft, kRight}, {kLarger}, {}, {}, {"d M"}},
      {"subtract", Op::subtract, {kLeft, kRight}, {kLarger}, {}, {}, {"d M"}},
      {"multiply", Op::multiply, {kLeft, kRight}, {kLarger}, {}, {}, {"d M"}},
      {"divide", Op::divide, {kLeft, kRight}, {kLarger}, {}, {}, {"d M"}},
      {"affine",
       Op::affine,
       {kX},
       {kSameFloats},
       {kActivation},
       {{"line", Type::floats, {Dtype::f32}, "K", "2"}},
       {"d K"}},
      {"function",
       Op::function,
       {kX},
       {kSameFloats},
       {kFunction, {"slope", {}, "a number within float32, 0 for all but leaky_relu"}},
       {},
       {"d K"}},
      {"dense",
       Op::dense,
       {kX},
       {kOutputFloats},
       {kOutputs, kActivation, kGroups},
       {{"weight", Type::floats, {Dtype::f32, Dtype::f16}, "M", "K / G"}, {"bias", Type::floats, {Dtype::f32}, "M"}},
       {"d M K / G"}},
      {"transform",
       Op::transform,
       {kX, {"matrix", kFloats, Place::not_below, "K M"}},
       {kOutputFloats},
       {kOutputs},
       {},
       {"d K M"}},
      {"mix",
       Op::mix,
       {{"matrix", kFloats, Place::parent, "k k"}, {"x", kFloats, Place::fixed_groups, "L"}},
       {{kFloats, Place::any, "L"}},
       {},
       {},
       {"d k L"}},
      {"outer",
       Op::outer,
       {{"w", kFloats, Place::elements, "K"}, {"x", kFloats, Place::elements, "L"}},
       {{kFloats, Place::parent, "K L"}},
       {},
       {},
       {"d K L"}},
      {"pool",
       Op::pool,
       {{"x", kFloats, Place::elements, "K"}, {"codes", kBits, Place::elements, "L", Times::optional}},
       {{kFloats, Place::parent, "K"}},
       {{"pool", {"max", "mean", "sum"}}, {"over", {"points", "neighbors", "distinct"}}, kShift},
       {},
       {"d K"}},
      {"sign", Op::sign, {kX}, {{kBits, Place::any, "K"}}, {{"at", {}, "a number that float32 holds exactly"}}, {}, {}},
      {"mean_abs",
       Op::mean_abs,
       {kX},
       {{kFloats, Place::any, "G"}},
       {{"groups", {}, "an integer of at least 1 that divides K"}},
       {},
       {"d K"}},
      {"bilinear",
       Op::bilinear,
       {kBitsX},
       {{kBits, Place::any, "M"}},
       {kOutputs, kGroups},
       {kBitWeight, kThreshold},
       {"", "d M K / G"}},
      {"bilinear_float",
       Op::bilinear_float,
       {kBitsX, {"scale", kFloats, Place::any, "G", Times::optional}},
       {kOutputFloats},
       {kOutputs, kActivation, kGroups},
       {kBitWeight, {"line", Type::floats, {Dtype::f32}, "M", "2"}},
       {"d M", "d M K / G"}},
      {"bilinear_pool",
       Op::bilinear_pool,
       {{"x", kBits, Place::elements, "K"}},
       {{kBits, Place::parent, "M"}, {kBits, Place::any, "M", true}},
       {kOutputs, {"pool", {"max", "mean"}}, {"over", {"points", "neighbors", "distinct"}}, kShift},
       {{"weight", Type::bits, {Dtype::u64}, "M", "K"},
        {"line", Type::floats, {Dtype::f32, Dtype::f64}, "M", "2"},
        {"threshold", Type::thresholds, {Dtype::i16}, "M", "", true}},
       {"", "d M K"}},
  };
  return rules;
}

const OperationRule& rule_of(Op op) { return operation_rules()[static_cast<std::size_t>(op)]; }

std::string text_of(Kinds kinds) {
  if (kinds == kAnyKind) return "any value";
  std::vector<std::string> names;
  if (kinds & kFloats) names.push_back("floats");
  if (kinds & kBits) names.push_back("bits");
  if (kinds & kIndices) names.push_back("indices");
  return alternatives(names);
}

std::string text_of(Place place) {
  switch (place) {
    case Place::cloud: return "the cloud";
    case Place::points: return "the input points";
    case Place::set: return "a set S";
    case Place::centers: return "a set or the cloud C";
    case Place::center_set: return "a set C";
    case Place::any: return "d";
    case Place::elements: return "d, not the cloud";
    case Place::fixed_groups: return "groups d with least = most";
    case Place::into_set: return "d, into S";
    case Place::parent: return "p(d)";
    case Place::above: return "an ancestor of d";
    case Place::not_below: return "d or an ancestor of d";
    case Place::new_set: return "a new set, into S";
    default: return "new groups of C, into S";
  }
}

std::vector<OperationText> operation_texts() {
  const auto value = [](Kinds kinds, Place place, const std::string& channels) {
    return text_of(kinds) + " over " + text_of(place) + (channels.empty() ? "" : " (" + channels + ")");
  };
  std::vector<OperationText> texts;
  for (const OperationRule& rule : operation_rules()) {
    OperationText text;
    text.op = rule.name;
    for (const OperandRule& operand : rule.operands) {
      const char* times = operand.times == Times::optional      ? ", optional"
                          : operand.times == Times::two_or_more ? ", two or more"
                                                                : "";
      text.operands.push_back(operand.name + (": " + value(operand.kinds, operand.place, operand.channels)) + times);
    }
    for (const ResultRule& result : rule.results) {
      text.results.push_back(value(result.kinds, result.place, result.channels) +
                             (result.optional ? ", optional" : ""));
    }
    for (const FieldRule& field : rule.fields) {
      text.fields.push_back(field.name + (": " + (field.choices.empty() ? field.values : alternatives(field.choices))));
    }
    for (const TensorRule& tensor : rule.tensors) {
      std::vector<std::string> dtypes;
      for (const Dtype dtype : tensor.dtypes) dtypes.push_back(name_of(dtype));
      const std::string columns =
          tensor.type == Type::bits ? std::string("words of ") + tensor.columns : tensor.columns;
      text.tensors.push_back(std::string(tensor.name) + ": " + alternatives(dtypes) + " [" + tensor.rows +
                             (columns.empty() ? "" : ", " + columns) + "]" +
                             (tensor.of_second_result ? ", with a second result" : ""));
    }
    const std::pair<const char*, const char*> costs[] = {{"float_multiply_adds", rule.cost.floats},
                                                         {"bit_multiply_adds", rule.cost.bits},
                                                         {"distances", rule.cost.distances}};
    for (const auto& [name, expression] : costs) {
      if (*expression != '\0') text.cost.push_back(std::string(name) + ": " + expression);
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace bipointnet
