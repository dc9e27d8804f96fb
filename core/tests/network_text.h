// A network in memory as the text and the bytes of its file.
#pragma once

#include <cstdio>
#include <string>

#include "format/network.h"
#include "packed_writer.h"

namespace bipointnet {

inline const char* text_of(Op op) {
  constexpr const char* names[] = {"points",   "category", "farthest",       "nearest",  "ball",     "interpolate",
                                   "density",  "gather",   "broadcast",      "flatten",  "size",     "concat",
                                   "slice",    "add",      "subtract",       "multiply", "divide",   "affine",
                                   "function", "dense",    "transform",      "mix",      "outer",    "pool",
                                   "sign",     "mean_abs", "bilinear",       "bilinear_float",       "bilinear_pool"};
  return names[static_cast<std::size_t>(op)];
}

inline const char* text_of(Function function) {
  constexpr const char* names[] = {"relu", "hardtanh",   "leaky_relu", "abs",     "square",
                                   "sqrt", "reciprocal", "exp",        "sigmoid", "tanh"};
  return names[static_cast<std::size_t>(function)];
}

inline const char* text_of(Activation activation) {
  constexpr const char* names[] = {"none", "relu", "hardtanh"};
  return names[static_cast<std::size_t>(activation)];
}

inline const char* text_of(Pool pool) {
  constexpr const char* names[] = {"max", "mean", "sum"};
  return names[static_cast<std::size_t>(pool)];
}

inline const char* text_of(Over over) {
  constexpr const char* names[] = {"points", "neighbors", "distinct"};
  return names[static_cast<std::size_t>(over)];
}

inline const char* text_of(Order order) {
  constexpr const char* names[] = {"coordinates", "index", "nearest", "slots", "channels"};
  return names[static_cast<std::size_t>(order)];
}

inline const char* text_of(Guard guard) {
  constexpr const char* names[] = {"limit", "add", "clamp"};
  return names[static_cast<std::size_t>(guard)];
}

inline const char* text_of(Rounding rounding) {
  constexpr const char* names[] = {"floor", "ceil", "even"};
  return names[static_cast<std::size_t>(rounding)];
}

// Enough digits to read the same double.
inline std::string text_of(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

// The fields of one operation as JSON, in the order of docs/format.md.
class OperationJson {
 public:
  OperationJson(const Network& network, const Operation& operation) : operation_(operation) {
    text_ = std::string("{\"op\":\"") + text_of(operation.op) + "\",\"in\":" + names(network, operation.in) +
            ",\"out\":" + names(network, operation.out);
    add_fields(network.domains[size(network.values[size(operation.out[0])].domain)].count);
    text_ += "}";
  }

  const std::string& text() const { return text_; }

 private:
  static std::string names(const Network& network, const std::vector<int>& values) {
    std::string list;
    for (const int value : values) list += (list.empty() ? "" : ",") + json_string(network.values[size(value)].name);
    return "[" + list + "]";
  }

  void add(const char* key, const std::string& json) { text_ += std::string(",\"") + key + "\":" + json; }
  void add(const char* key, const char* word) { add(key, json_string(word)); }
  void add(const char* key, int number) { add(key, std::to_string(number)); }
  void add(const char* key, double number) { add(key, text_of(number)); }

  void add_count(const SizeRule& rule) {
    add("count", "{\"factor\":" + text_of(rule.factor) + ",\"round\":\"" + text_of(rule.rounding) +
                     "\",\"least\":" + std::to_string(rule.least) + ",\"most\":" + std::to_string(rule.most) + "}");
  }

  void add_outputs() { add("outputs", operation_.outputs); }
  void add_activation() { add("activation", text_of(operation_.activation)); }
  void add_groups() { add("groups", operation_.groups); }
  void add_order() { add("order", text_of(operation_.order)); }

  void add_pool() {
    add("pool", text_of(operation_.pool));
    add("over", text_of(operation_.over));
    add("shift", operation_.shifted ? "delta" : "none");
  }

  void add_fields(const SizeRule& count) {
    switch (operation_.op) {
      case Op::farthest: return add_count(count), add_order();
      case Op::nearest: return add_count(count), add("dilation", operation_.dilation);
      case Op::ball: return add_count(count), add("radius", operation_.radius), add_order();
      case Op::interpolate:
        return add("guard", text_of(operation_.guard)), add("epsilon", double{operation_.epsilon});
      case Op::density: return add("bandwidth", operation_.bandwidth);
      case Op::flatten: return add_order();
      case Op::size: return add("over", text_of(operation_.over));
      case Op::slice: return add("from", operation_.from), add("to", operation_.to);
      case Op::affine: return add_activation();
      case Op::function:
        return add("function", text_of(operation_.function)), add("slope", double{operation_.slope});
      case Op::dense:
      case Op::bilinear_float: return add_outputs(), add_activation(), add_groups();
      case Op::transform: return add_outputs();
      case Op::pool: return add_pool();
      case Op::sign: return add("at", double{operation_.at});
      case Op::mean_abs: return add_groups();
      case Op::bilinear: return add_outputs(), add_groups();
      case Op::bilinear_pool: return add_outputs(), add_pool();
      default: return;
    }
  }

  const Operation& operation_;
  std::string text_;
};

// The operations, one per line, each with the kind, the domain and the channels of its first result.
inline std::string text_of(const Network& network) {
  std::string text;
  for (const Operation& operation : network.operations) {
    const Value& result = network.values[size(operation.out[0])];
    const char* kinds[] = {"floats", "bits", "indices"};
    text += OperationJson(network, operation).text() + "  " + kinds[static_cast<std::size_t>(result.kind)] +
            " of domain " + std::to_string(result.domain) + ", " + std::to_string(result.channels) + " channels\n";
  }
  return text;
}

inline std::string list_of_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + json_string(name);
  return "[" + list + "]";
}

inline std::string manifest_of(const Network& network) {
  std::string program;
  for (const Operation& operation : network.operations) {
    program += (program.empty() ? "" : ",") + OperationJson(network, operation).text();
  }
  const std::string categories =
      network.categories.empty() ? "" : ",\"categories\":" + list_of_names(network.categories);
  return std::string("{\"format\":2,\"model\":\"made up\",\"task\":\"") + name_of(network.task) +
         "\",\"classes\":" + list_of_names(network.classes) + categories +
         ",\"channels\":" + std::to_string(network.channels) + ",\"normalize\":\"" +
         (network.normalize == Normalize::mean ? "sphere" : network.normalize == Normalize::box ? "box" : "none") + "\",\"program\":[" + program +
         "],\"golden\":{\"seed\":" + std::to_string(network.golden_seed) +
         ",\"points\":" + std::to_string(network.golden_points) +
         ",\"tolerance\":" + text_of(network.golden_tolerance) + "},\"training\":{}}";
}

template <class Number>
std::vector<int> matrix_shape(const std::vector<Number>& numbers, int rows) {
  return {rows, static_cast<int>(numbers.size()) / rows};
}

inline void add_floats(PackedFile& file, const std::string& name, std::vector<int> shape,
                       const std::vector<float>& numbers) {
  Bytes bytes;
  for (const float number : numbers) append_f32(bytes, number);
  file.add(name, "F32", shape, bytes);
}

// The tensors of one operation.
inline void add_tensors(PackedFile& file, const std::string& name, const Operation& operation) {
  Bytes bits, thresholds, lines;
  for (const std::uint64_t word : operation.bits) append_word(bits, word);
  for (const std::int16_t number : operation.threshold) append_word(thresholds, static_cast<std::uint16_t>(number));
  const int outputs = operation.outputs;
  if (!bits.empty()) file.add(name + ".weight", "U64", matrix_shape(operation.bits, outputs), bits);
  if (!thresholds.empty()) file.add(name + ".threshold", "I16", {outputs}, thresholds);
  if (operation.op == Op::bilinear_pool) {
    for (const double number : operation.line) append_f64(lines, number);
    file.add(name + ".line", "F64", {outputs, 2}, lines);
  } else if (!operation.line.empty()) {
    add_floats(file, name + ".line", {outputs, 2}, {operation.line.begin(), operation.line.end()});
  }
  if (!operation.weight.empty()) {
    add_floats(file, name + ".weight", matrix_shape(operation.weight, outputs), operation.weight);
    add_floats(file, name + ".bias", {outputs}, operation.bias);
  }
}

// The file of a network, whose golden vector must be set.
inline PackedFile packed(const Network& network) {
  PackedFile file;
  file.manifest = manifest_of(network);
  for (const Operation& operation : network.operations) {
    add_tensors(file, network.values[size(operation.out[0])].name, operation);
  }
  const int classes = static_cast<int>(network.classes.size());
  const std::vector<int> shape =
      network.per_point() ? std::vector<int>{network.golden_points, classes} : std::vector<int>{classes};
  add_floats(file, "golden", shape, network.golden);
  return file;
}

}  // namespace bipointnet
