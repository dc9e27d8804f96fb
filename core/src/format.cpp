// The only reader of a packed model. docs/format.md is the contract; every rule there is checked here, before the
// memory that depends on it is taken. A message names what it is about, what was found and what was expected.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include "json.h"
#include "network.h"

namespace bipointnet {
namespace {

constexpr std::uint64_t kMaxHeader = 16u << 20;
constexpr std::uint64_t kHeaderAlignment = 8;
constexpr std::int64_t kMaxWidth = 32766;
constexpr std::int64_t kMaxChannels = 256;
constexpr std::int64_t kMaxOperations = 256;
constexpr std::int64_t kMaxMatrices = 16;
constexpr std::int64_t kMaxMatrixSize = 181;  // its square is a width
constexpr std::int64_t kMaxGoldenPoints = 4096;
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;  // what JSON integers reach

[[noreturn]] void fail(const std::string& what, const std::string& found, const std::string& expected) {
  throw FormatError(what + ": " + found + ", expected " + expected);
}

std::string decimal(std::uint64_t value) { return std::to_string(value); }

std::string range(std::int64_t low, std::int64_t high) { return std::to_string(low) + " to " + std::to_string(high); }

// "a", "a or b", "a, b or c"
std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

// The members of a JSON object, read by name.
class Fields {
 public:
  std::string what;

  Fields(const JsonValue& object, std::string what_it_is) : what(std::move(what_it_is)) {
    if (object.kind() != JsonValue::Kind::object) fail(what, object.describe(), "an object");
    members_ = object.members();
  }

  void expect_keys(const std::vector<std::string>& keys) const {
    for (const auto& member : members_) {
      if (std::find(keys.begin(), keys.end(), member.first) == keys.end()) {
        fail(what, "key " + quoted(member.first), "no keys but " + alternatives(keys));
      }
    }
    for (const std::string& key : keys) at(key);
  }

  const JsonValue& at(const std::string& key) const {
    for (const auto& member : members_) {
      if (member.first == key) return member.second;
    }
    fail(what, "no key " + key, "one");
  }

  std::string string(const std::string& key) const {
    const JsonValue& value = at(key);
    if (value.kind() != JsonValue::Kind::string) fail_at(key, "a string");
    return value.string();
  }

  std::vector<JsonValue> list(const std::string& key, std::int64_t low, std::int64_t high) const {
    const JsonValue& value = at(key);
    if (value.kind() != JsonValue::Kind::array) fail_at(key, "a list");
    const auto length = static_cast<std::int64_t>(value.size());
    if (length < low || length > high) {
      fail(what, key + " with " + std::to_string(length) + " items", range(low, high));
    }
    return value.items();
  }

  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high) const {
    const auto value = at(key).integer();
    if (!value || *value < low || *value > high) fail_at(key, "an integer from " + range(low, high));
    return *value;
  }

  double number(const std::string& key) const {
    const auto value = at(key).number();
    if (!value) fail_at(key, "a number that fits a float64");
    return *value;
  }

  template <class T>
  T choice(const std::string& key, std::initializer_list<std::pair<const char*, T>> choices) const {
    std::vector<std::string> names;
    const std::string name = string(key);
    for (const auto& [known, value] : choices) {
      if (name == known) return value;
      names.push_back(known);
    }
    fail_at(key, alternatives(names));
  }

  [[noreturn]] void fail_at(const std::string& key, const std::string& expected) const {
    fail(what, key + " " + at(key).describe(), expected);
  }

 private:
  std::vector<JsonValue::Member> members_;
};

template <class Word>
Word little_endian(const std::uint8_t* bytes) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i) word = static_cast<Word>(word | static_cast<Word>(bytes[i]) << 8 * i);
  return word;
}

template <class Float, class Word>
Float reinterpret(Word word) {
  static_assert(sizeof(Float) == sizeof(Word));
  Float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// F16 has 5 bits of exponent with bias 15 and 10 of fraction, F32 has 8 with bias 127 and 23. Numbers below 2^-14 have
// exponent 0 and are multiples of 2^-24; float32 holds them all.
float widened(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
  const std::uint32_t exponent = half >> 10 & 31;
  const std::uint32_t fraction = half & 1023;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
  return reinterpret<float>(sign | wide << 23 | fraction << 13);
}

enum class Dtype { u64, i16, f16, f32, f64 };

std::size_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::i16:
    case Dtype::f16: return 2;
    case Dtype::f32: return 4;
    default: return 8;
  }
}

std::string name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::u64: return "U64";
    case Dtype::i16: return "I16";
    case Dtype::f16: return "F16";
    case Dtype::f32: return "F32";
    default: return "F64";
  }
}

double float_at(const std::uint8_t* bytes, Dtype dtype) {
  if (dtype == Dtype::f16) return widened(little_endian<std::uint16_t>(bytes));
  if (dtype == Dtype::f32) return reinterpret<float>(little_endian<std::uint32_t>(bytes));
  return reinterpret<double>(little_endian<std::uint64_t>(bytes));
}

using Shape = std::vector<std::uint64_t>;

std::string text_of(const Shape& shape) {
  std::string text;
  for (const std::uint64_t size : shape) text += (text.empty() ? "" : ", ") + decimal(size);
  return "[" + text + "]";
}

struct Tensor {
  Dtype dtype{};
  Shape shape;
  std::uint64_t begin = 0;  // in the bytes after the header
  std::uint64_t end = 0;
  bool used = false;
};

// The tensors of a file, each of which must be taken once.
class Tensors {
 public:
  Tensors(const std::uint8_t* body, std::uint64_t size) : body_(body), size_(size) {}

  void add(const std::string& name, const JsonValue& entry) {
    const Fields fields(entry, printable(name));
    fields.expect_keys({"dtype", "shape", "data_offsets"});
    Tensor tensor;
    tensor.dtype = fields.choice<Dtype>("dtype", {{"U64", Dtype::u64},
                                                  {"I16", Dtype::i16},
                                                  {"F16", Dtype::f16},
                                                  {"F32", Dtype::f32},
                                                  {"F64", Dtype::f64}});
    tensor.shape = sizes(fields, "shape", 1, 2);
    const Shape offsets = sizes(fields, "data_offsets", 2, 2);
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    check_size(fields.what, tensor);
    tensors_.emplace(name, std::move(tensor));
  }

  // Sorted by where they begin, every tensor begins where the last one ended, and the last one ends with the file.
  void check_layout() const {
    std::vector<const Named*> order;
    for (const Named& named : tensors_) order.push_back(&named);
    std::sort(order.begin(), order.end(), [](const Named* a, const Named* b) {
      return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
    });
    std::uint64_t end = 0;
    std::string before = "the header";
    for (const Named* named : order) {
      const Tensor& tensor = named->second;
      if (tensor.begin != end) {
        fail(printable(named->first), std::string(tensor.begin < end ? "overlap" : "gap") + ", begins at byte " +
             decimal(tensor.begin), "byte " + decimal(end) + ", where " + before + " ends");
      }
      end = tensor.end;
      before = printable(named->first);
    }
    if (end != size_) fail("file", decimal(size_ - end) + " bytes after " + before, "none");
  }

  void expect_all_used() const {
    for (const auto& [name, tensor] : tensors_) {
      if (!tensor.used) fail(printable(name), "tensor that no operation uses", "none");
    }
  }

  // Rows of `columns` bits each.
  std::vector<std::uint64_t> bits(const std::string& name, int rows, int columns) {
    const std::size_t words = words_for(static_cast<std::size_t>(columns));
    const Tensor& tensor = take(name, {Dtype::u64}, {size_of(rows), words}, " for K = " + std::to_string(columns));
    const std::size_t used = static_cast<std::size_t>(columns) % kWordBits;
    const std::uint64_t pad = used == 0 ? 0 : ~std::uint64_t{0} << used;
    std::vector<std::uint64_t> bits(count_of(tensor));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bits[i] = little_endian<std::uint64_t>(at(tensor, i));
      if (i % words == words - 1 && (bits[i] & pad) != 0) {
        fail(name, "pad bits set in row " + decimal(i / words), "zeros past K = " + std::to_string(columns));
      }
    }
    return bits;
  }

  // Thresholds of counts from 0 to `inputs`; inputs + 1 is never reached.
  std::vector<std::int16_t> thresholds(const std::string& name, int rows, int inputs) {
    const Tensor& tensor = take(name, {Dtype::i16}, {size_of(rows)}, "");
    std::vector<std::int16_t> thresholds(count_of(tensor));
    for (std::size_t i = 0; i < thresholds.size(); ++i) {
      thresholds[i] = reinterpret<std::int16_t>(little_endian<std::uint16_t>(at(tensor, i)));
      if (thresholds[i] < 0 || thresholds[i] > inputs + 1) {
        fail(name, "threshold " + std::to_string(thresholds[i]) + " in row " + decimal(i), range(0, inputs + 1));
      }
    }
    return thresholds;
  }

  // Float is at least as wide as the widest of `dtypes`, so every number stays as it is.
  template <class Float>
  std::vector<Float> floats(const std::string& name, std::initializer_list<Dtype> dtypes, const Shape& shape) {
    const Tensor& tensor = take(name, dtypes, shape, "");
    std::vector<Float> floats(count_of(tensor));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const double value = float_at(at(tensor, i), tensor.dtype);
      if (!std::isfinite(value)) {
        fail(name, std::to_string(value) + " as number " + decimal(i), "finite numbers");
      }
      floats[i] = static_cast<Float>(value);
    }
    return floats;
  }

 private:
  using Named = std::pair<const std::string, Tensor>;

  static std::uint64_t size_of(int count) { return static_cast<std::uint64_t>(count); }

  static Shape sizes(const Fields& fields, const std::string& key, std::int64_t low, std::int64_t high) {
    Shape sizes;
    for (const JsonValue& item : fields.list(key, low, high)) {
      const auto size = item.integer();
      if (!size || *size < 0) {
        fail(fields.what, key + " with " + item.describe(), "integers from " + range(0, kMaxInteger));
      }
      sizes.push_back(static_cast<std::uint64_t>(*size));
    }
    return sizes;
  }

  // The product of the shape never leaves the size of the file, so it cannot overflow.
  void check_size(const std::string& what, const Tensor& tensor) const {
    if (tensor.begin > tensor.end || tensor.end > size_) {
      fail(what, "data_offsets " + text_of({tensor.begin, tensor.end}), "a range of the " + decimal(size_) +
           " bytes after the header");
    }
    const std::uint64_t bytes = tensor.end - tensor.begin;
    std::uint64_t need = bytes_of(tensor.dtype);
    for (const std::uint64_t size : tensor.shape) {
      if (size > 0 && need > bytes / size) {
        fail(what, decimal(bytes) + " bytes", "more for shape " + text_of(tensor.shape) + " of " +
             name_of(tensor.dtype));
      }
      need *= size;
    }
    if (need != bytes) {
      fail(what, decimal(bytes) + " bytes", decimal(need) + " for shape " + text_of(tensor.shape) + " of " +
           name_of(tensor.dtype));
    }
  }

  const Tensor& take(const std::string& name, std::initializer_list<Dtype> dtypes, const Shape& shape,
                     const std::string& reason) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) fail(name, "no such tensor", "one of shape " + text_of(shape) + reason);
    Tensor& tensor = found->second;
    if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
      std::vector<std::string> names;
      for (const Dtype dtype : dtypes) names.push_back(name_of(dtype));
      fail(name, "dtype " + name_of(tensor.dtype), alternatives(names));
    }
    if (tensor.shape != shape) fail(name, "shape " + text_of(tensor.shape), text_of(shape) + reason);
    tensor.used = true;
    return tensor;
  }

  static std::size_t count_of(const Tensor& tensor) {
    return static_cast<std::size_t>((tensor.end - tensor.begin) / bytes_of(tensor.dtype));
  }

  const std::uint8_t* at(const Tensor& tensor, std::size_t i) const {
    return body_ + tensor.begin + i * bytes_of(tensor.dtype);
  }

  const std::uint8_t* body_;
  std::uint64_t size_;
  std::map<std::string, Tensor> tensors_;
};

// The value that a program works on.
enum class Kind { nothing, point_floats, point_bits, vector_floats, vector_bits };

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::nothing: return "nothing";
    case Kind::point_floats: return "point floats";
    case Kind::point_bits: return "point bits";
    case Kind::vector_floats: return "vector floats";
    default: return "vector bits";
  }
}

Kind floats(bool on_points) { return on_points ? Kind::point_floats : Kind::vector_floats; }

Kind bits(bool on_points) { return on_points ? Kind::point_bits : Kind::vector_bits; }

std::string text_of(Kind kind, int width) {
  return kind == Kind::nothing ? name_of(kind) : name_of(kind) + " (" + std::to_string(width) + ")";
}

// Reads a program, operation by operation, and follows the kind and the width of the value they work on.
class Program {
 public:
  Program(Tensors& tensors, int channels) : tensors_(tensors), channels_(channels) {}

  void add(const JsonValue& operation) {
    Fields fields(operation, "operation " + std::to_string(layers_.size()));
    const Rule& rule = rule_of(fields);
    fields.what += std::string(", ") + rule.name;
    expect_fields(fields, rule);
    expect_kind(fields, rule);

    Layer layer;
    layer.op = rule.op;
    layer.inputs = width_;
    layer.outputs = width_;
    layer.on_points = kind_ == Kind::point_floats || kind_ == Kind::point_bits;
    (this->*rule.read)(fields, layer);
    layers_.push_back(std::move(layer));
  }

  void expect_end(std::size_t classes) const {
    if (kind_ != Kind::vector_floats || static_cast<std::size_t>(width_) != classes) {
      fail("program", "ends with " + text_of(kind_, width_),
           "vector floats (" + decimal(classes) + "), one a class");
    }
  }

  std::vector<Layer> layers() && { return std::move(layers_); }

 private:
  using Read = void (Program::*)(const Fields&, Layer&);

  struct Rule {
    const char* name;
    Op op;
    std::vector<Kind> from;
    std::vector<std::string> fields;
    Read read;
  };

  static const std::vector<Rule>& rules() {
    using K = Kind;
    static const std::vector<Rule> rules = {
        {"points", Op::points, {K::nothing}, {}, &Program::points},
        {"transform", Op::transform, {K::point_floats}, {"matrix"}, &Program::transform},
        {"dense", Op::dense, {K::point_floats, K::vector_floats}, {"outputs", "activation"}, &Program::dense},
        {"sign", Op::sign, {K::point_floats, K::vector_floats}, {}, &Program::sign},
        {"bilinear", Op::bilinear, {K::point_bits, K::vector_bits}, {"outputs"}, &Program::bilinear},
        {"bilinear_pool", Op::bilinear_pool, {K::point_bits}, {"outputs", "pool", "shift"}, &Program::bilinear_pool},
        {"bilinear_float", Op::bilinear_float, {K::vector_bits}, {"outputs", "activation"}, &Program::bilinear_float},
        {"pool", Op::pool, {K::point_floats}, {"pool"}, &Program::pool},
        {"matrix", Op::matrix, {K::vector_floats}, {"size"}, &Program::matrix},
    };
    return rules;
  }

  static const Rule& rule_of(const Fields& fields) {
    const std::string name = fields.string("op");
    std::vector<std::string> names;
    for (const Rule& rule : rules()) {
      if (name == rule.name) return rule;
      names.push_back(rule.name);
    }
    fields.fail_at("op", alternatives(names));
  }

  static void expect_fields(const Fields& fields, const Rule& rule) {
    std::vector<std::string> keys = {"op"};
    keys.insert(keys.end(), rule.fields.begin(), rule.fields.end());
    fields.expect_keys(keys);
  }

  void expect_kind(const Fields& fields, const Rule& rule) const {
    if (std::find(rule.from.begin(), rule.from.end(), kind_) != rule.from.end()) return;
    std::vector<std::string> names;
    for (const Kind kind : rule.from) names.push_back(name_of(kind));
    fail(fields.what, "works on " + text_of(kind_, width_), alternatives(names));
  }

  void points(const Fields&, Layer& layer) { become(Kind::point_floats, layer.outputs = channels_); }

  void transform(const Fields& fields, Layer& layer) {
    layer.matrix = static_cast<int>(fields.integer("matrix", 0, kMaxMatrices - 1));
    const auto number = static_cast<std::size_t>(layer.matrix);
    if (number >= matrix_sizes_.size()) {
      fields.fail_at("matrix", "one of the " + decimal(matrix_sizes_.size()) + " kept before, counted from 0");
    }
    if (matrix_sizes_[number] > width_) {
      fail(fields.what, "matrix of size " + std::to_string(matrix_sizes_[number]),
           "at most the " + std::to_string(width_) + " numbers of a point");
    }
  }

  void dense(const Fields& fields, Layer& layer) {
    read_outputs(fields, layer);
    read_activation(fields, layer);
    layer.weight = tensors_.floats<float>(tensor("weight"), {Dtype::f32, Dtype::f16}, {rows(layer), columns(layer)});
    layer.bias = tensors_.floats<float>(tensor("bias"), {Dtype::f32}, {rows(layer)});
    become(floats(layer.on_points), layer.outputs);
  }

  void sign(const Fields&, Layer& layer) { become(bits(layer.on_points), layer.outputs); }

  void bilinear(const Fields& fields, Layer& layer) {
    read_outputs(fields, layer);
    read_bits(layer);
    layer.threshold = tensors_.thresholds(tensor("threshold"), layer.outputs, layer.inputs);
    become(bits(layer.on_points), layer.outputs);
  }

  void bilinear_pool(const Fields& fields, Layer& layer) {
    read_outputs(fields, layer);
    read_pool(fields, layer);
    layer.shifted = fields.choice<bool>("shift", {{"none", false}, {"delta", true}});
    if (layer.pool == Pool::mean && layer.shifted) fields.fail_at("shift", "none for pool mean");
    read_bits(layer);
    layer.line = tensors_.floats<double>(tensor("line"), {Dtype::f32, Dtype::f64}, {rows(layer), 2});
    if (layer.pool == Pool::mean) expect_no_slope(layer);
    become(Kind::vector_bits, layer.outputs);
  }

  void bilinear_float(const Fields& fields, Layer& layer) {
    read_outputs(fields, layer);
    read_activation(fields, layer);
    read_bits(layer);
    layer.line = tensors_.floats<double>(tensor("line"), {Dtype::f32}, {rows(layer), 2});
    become(Kind::vector_floats, layer.outputs);
  }

  void pool(const Fields& fields, Layer& layer) {
    read_pool(fields, layer);
    become(Kind::vector_floats, layer.outputs);
  }

  void matrix(const Fields& fields, Layer& layer) {
    layer.outputs = static_cast<int>(fields.integer("size", 1, kMaxMatrixSize));
    layer.matrix = static_cast<int>(matrix_sizes_.size());
    if (layer.matrix == kMaxMatrices) {
      fail(fields.what, "one matrix more", "at most " + std::to_string(kMaxMatrices) + " matrices");
    }
    if (layer.outputs * layer.outputs != layer.inputs) {
      fields.fail_at("size", "the root of " + std::to_string(layer.inputs) + ", the length of the vector");
    }
    matrix_sizes_.push_back(layer.outputs);
    become(Kind::nothing, 0);
  }

  static void read_outputs(const Fields& fields, Layer& layer) {
    layer.outputs = static_cast<int>(fields.integer("outputs", 1, kMaxWidth));
  }

  static void read_activation(const Fields& fields, Layer& layer) {
    layer.activation = fields.choice<Activation>(
        "activation",
        {{"none", Activation::none}, {"relu", Activation::relu}, {"hardtanh", Activation::hardtanh}});
  }

  static void read_pool(const Fields& fields, Layer& layer) {
    layer.pool = fields.choice<Pool>("pool", {{"max", Pool::max}, {"mean", Pool::mean}});
  }

  void read_bits(Layer& layer) { layer.bits = tensors_.bits(tensor("weight"), layer.outputs, layer.inputs); }

  void expect_no_slope(const Layer& layer) const {
    for (std::size_t i = 1; i < layer.line.size(); i += 2) {
      if (layer.line[i] != 0) {
        fail(tensor("line"), "b = " + std::to_string(layer.line[i]) + " in row " + decimal(i / 2), "0 for pool mean");
      }
    }
  }

  void become(Kind kind, int width) {
    kind_ = kind;
    width_ = width;
  }

  std::string tensor(const char* name) const { return std::to_string(layers_.size()) + "." + name; }

  static std::uint64_t rows(const Layer& layer) { return static_cast<std::uint64_t>(layer.outputs); }

  static std::uint64_t columns(const Layer& layer) { return static_cast<std::uint64_t>(layer.inputs); }

  Tensors& tensors_;
  int channels_;
  Kind kind_ = Kind::nothing;
  int width_ = 0;
  std::vector<int> matrix_sizes_;
  std::vector<Layer> layers_;
};

std::string_view header_of(const std::uint8_t* bytes, std::size_t size) {
  if (size < kHeaderAlignment) fail("file", decimal(size) + " bytes", "8 or more");
  const auto length = little_endian<std::uint64_t>(bytes);
  if (length > kMaxHeader) fail("header", "length " + decimal(length), "at most " + decimal(kMaxHeader));
  const std::uint64_t rest = size - kHeaderAlignment;
  if (length > rest) fail("header", "length " + decimal(length), "at most the " + decimal(rest) + " bytes after it");
  if (length % kHeaderAlignment != 0) fail("header", "length " + decimal(length), "a multiple of 8");
  const char* text = reinterpret_cast<const char*>(bytes + kHeaderAlignment);
  if (length == 0 || text[0] != '{') fail("header", "no '{' at its start", "a JSON object");
  return {text, static_cast<std::size_t>(length)};
}

std::string manifest_of(const JsonValue& metadata) {
  const Fields fields(metadata, "__metadata__");
  fields.expect_keys({"bipointnet"});
  return fields.string("bipointnet");
}

// C strings end at the first NUL; a name with one would reach people cut short.
std::vector<std::string> read_classes(const Fields& manifest) {
  std::vector<std::string> classes;
  for (const JsonValue& item : manifest.list("classes", 1, kMaxWidth)) {
    const std::string what = manifest.what + ": class " + decimal(classes.size());
    if (item.kind() != JsonValue::Kind::string) fail(what, item.describe(), "a string");
    classes.push_back(item.string());
    if (classes.back().find('\0') != std::string::npos) fail(what, item.describe(), "a name without the character NUL");
  }
  return classes;
}

void read_golden(const Fields& manifest, Tensors& tensors, Network& network) {
  const Fields golden(manifest.at("golden"), manifest.what + ": golden");
  golden.expect_keys({"seed", "points", "tolerance"});
  network.golden_seed = static_cast<std::uint64_t>(golden.integer("seed", 0, kMaxInteger - 1));
  network.golden_points = static_cast<int>(golden.integer("points", 1, kMaxGoldenPoints));
  network.golden_tolerance = golden.number("tolerance");
  if (network.golden_tolerance < 0) golden.fail_at("tolerance", "0 or more");
  network.golden = tensors.floats<float>("golden", {Dtype::f32}, {network.classes.size()});
}

std::vector<Layer> read_program(const Fields& manifest, Tensors& tensors, const Network& network) {
  Program program(tensors, network.channels);
  for (const JsonValue& operation : manifest.list("program", 1, kMaxOperations)) program.add(operation);
  program.expect_end(network.classes.size());
  return std::move(program).layers();
}

void read_manifest(const JsonValue& root, Tensors& tensors, Network& network) {
  const Fields manifest(root, "manifest");
  manifest.integer("format", 1, 1);
  manifest.expect_keys({"format", "model", "classes", "channels", "normalize", "program", "golden", "training"});
  manifest.string("model");
  if (manifest.at("training").kind() != JsonValue::Kind::object) manifest.fail_at("training", "an object");
  network.classes = read_classes(manifest);
  network.channels = static_cast<int>(manifest.integer("channels", 3, kMaxChannels));
  network.normalize = manifest.choice<bool>("normalize", {{"sphere", true}, {"none", false}});
  network.layers = read_program(manifest, tensors, network);
  read_golden(manifest, tensors, network);
}

}  // namespace

Network parse(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view header = header_of(bytes, size);
  const std::size_t body = kHeaderAlignment + header.size();
  Tensors tensors(bytes + body, size - body);
  Network network;
  {
    const Json json(header, "header");
    bool found = false;
    for (const auto& [name, value] : json.root().members()) {
      if (name == "__metadata__") {
        network.manifest = manifest_of(value);
        found = true;
      } else {
        tensors.add(name, value);
      }
    }
    if (!found) fail("header", "no key __metadata__", "one");
  }
  tensors.check_layout();
  const Json manifest(network.manifest, "manifest");
  read_manifest(manifest.root(), tensors, network);
  tensors.expect_all_used();
  return network;
}

}  // namespace bipointnet
