// The only reader of a packed model: the manifest and its program become a Network, with the tensors that tensors.cpp
// finds in the file. docs/format.md is the contract; every rule there is checked here or there, before the memory that
// depends on it is taken.
#include <algorithm>
#include <utility>

#include "format/fields.h"
#include "format/json.h"
#include "format/network.h"
#include "format/tensors.h"

namespace bipointnet {
namespace {

constexpr std::int64_t kMaxWidth = 32766;
constexpr std::int64_t kMaxChannels = 256;
constexpr std::int64_t kMaxOperations = 256;
constexpr std::int64_t kMaxMatrices = 16;
constexpr std::int64_t kMaxMatrixSize = 181;  // its square is a width
constexpr std::int64_t kMaxKept = 64;
constexpr std::int64_t kMaxKeptBits = 65536;
constexpr std::int64_t kMaxGoldenPoints = 4096;

// The value that a program works on.
enum class Kind { nothing, point_floats, point_bits, point_scaled, vector_floats, vector_bits, vector_scaled };

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::nothing: return "nothing";
    case Kind::point_floats: return "point floats";
    case Kind::point_bits: return "point bits";
    case Kind::point_scaled: return "scaled point bits";
    case Kind::vector_floats: return "vector floats";
    case Kind::vector_bits: return "vector bits";
    default: return "scaled vector bits";
  }
}

Kind floats(bool on_points) { return on_points ? Kind::point_floats : Kind::vector_floats; }

Kind bits(bool on_points) { return on_points ? Kind::point_bits : Kind::vector_bits; }

Kind scaled(bool on_points) { return on_points ? Kind::point_scaled : Kind::vector_scaled; }

std::string text_of(Kind kind, int width) {
  return kind == Kind::nothing ? name_of(kind) : name_of(kind) + " (" + std::to_string(width) + ")";
}

// Reads a program, operation by operation, and follows the kind and the width of the value they work on.
class Program {
 public:
  Program(Tensors& tensors, int channels, int categories)
      : tensors_(tensors), channels_(channels), categories_(categories) {}

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
    layer.on_points = kind_ == Kind::point_floats || kind_ == Kind::point_bits || kind_ == Kind::point_scaled;
    (this->*rule.read)(fields, layer);
    layers_.push_back(std::move(layer));
    category_taken_ |= rule.op == Op::category;
  }

  void expect_end(std::size_t classes) const {
    const bool floats = kind_ == Kind::vector_floats || kind_ == Kind::point_floats;
    if (!floats || static_cast<std::size_t>(width_) != classes) {
      fail("program", "ends with " + text_of(kind_, width_),
           "vector floats (" + decimal(classes) + ") or point floats (" + decimal(classes) + "), one a class");
    }
    if (categories_ > 0 && !category_taken_) {
      fail("manifest", "categories, and no operation category", "both or neither");
    }
  }

  // What was read, into `network`.
  void finish(Network& network) && {
    network.layers = std::move(layers_);
    network.kept = std::move(kept_);
    network.segments = kind_ == Kind::point_floats;
  }

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
        {"compare", Op::compare, {K::point_floats, K::vector_floats}, {"at"}, &Program::compare},
        {"sign_scaled", Op::sign_scaled, {K::point_floats, K::vector_floats}, {}, &Program::sign_scaled},
        {"bilinear", Op::bilinear, {K::point_bits, K::vector_bits}, {"outputs"}, &Program::bilinear},
        {"bilinear_pool", Op::bilinear_pool, {K::point_bits}, {"outputs", "pool", "shift"}, &Program::bilinear_pool},
        {"bilinear_float", Op::bilinear_float, {K::point_bits, K::vector_bits}, {"outputs", "activation"},
         &Program::bilinear_float},
        {"bilinear_scaled", Op::bilinear_scaled, {K::point_scaled, K::vector_scaled}, {"outputs", "activation"},
         &Program::bilinear_float},
        {"pool", Op::pool, {K::point_floats}, {"pool"}, &Program::pool},
        {"shift", Op::shift, {K::vector_floats}, {}, &Program::shift},
        {"matrix", Op::matrix, {K::vector_floats}, {"size"}, &Program::matrix},
        {"keep", Op::keep, {K::point_bits, K::point_floats, K::vector_bits}, {}, &Program::keep},
        {"category", Op::category, {K::nothing}, {}, &Program::category},
        {"join", Op::join, {K::nothing}, {"kept"}, &Program::join},
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
    const auto reads = [&](Kind kind) {
      return std::find(rule.from.begin(), rule.from.end(), kind) != rule.from.end();
    };
    const bool may_be_left = kind_ == Kind::vector_bits && layers_.back().op == Op::keep;
    if (reads(kind_) || (may_be_left && reads(Kind::nothing))) return;
    std::vector<std::string> names;
    for (const Kind kind : rule.from) names.push_back(name_of(kind));
    if (reads(Kind::nothing)) names.push_back("vector bits right after keep");
    fail(fields.what, "works on " + text_of(kind_, width_), alternatives(names));
  }

  void points(const Fields&, Layer& layer) {
    start(layer);
    become(Kind::point_floats, layer.outputs = channels_);
  }

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

  void compare(const Fields& fields, Layer& layer) {
    const double at = fields.number("at");
    layer.at = static_cast<float>(at);
    if (static_cast<double>(layer.at) != at) fields.fail_at("at", "a number that float32 holds");
    become(bits(layer.on_points), layer.outputs);
  }

  void sign_scaled(const Fields&, Layer& layer) { become(scaled(layer.on_points), layer.outputs); }

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
    if (tensors_.has(tensor("threshold"))) {
      layer.threshold = tensors_.thresholds(tensor("threshold"), layer.outputs, layer.inputs);
      remember(fields, layer);
    }
    become(Kind::vector_bits, layer.outputs);
  }

  void bilinear_float(const Fields& fields, Layer& layer) {
    read_outputs(fields, layer);
    read_activation(fields, layer);
    read_bits(layer);
    layer.line = tensors_.floats<double>(tensor("line"), {Dtype::f32}, {rows(layer), 2});
    become(floats(layer.on_points), layer.outputs);
  }

  void pool(const Fields& fields, Layer& layer) {
    read_pool(fields, layer);
    become(Kind::vector_floats, layer.outputs);
  }

  void shift(const Fields&, Layer&) {}

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

  void keep(const Fields& fields, Layer& layer) { remember(fields, layer); }

  void category(const Fields& fields, Layer& layer) {
    start(layer);
    if (categories_ == 0) fail(fields.what, "no categories in the manifest", "their names");
    become(Kind::vector_bits, layer.outputs = categories_);
  }

  void join(const Fields& fields, Layer& layer) {
    start(layer);
    std::int64_t width = 0;
    bool points = false;
    for (const JsonValue& item : fields.list("kept", 1, kMaxKept)) {
      const std::string what = fields.what + ": kept " + item.describe();
      const auto number = item.integer();
      if (!number || *number < 0 || *number >= static_cast<std::int64_t>(kept_.size())) {
        fail(what, "no such value", "one of the " + decimal(kept_.size()) + " kept before, counted from 0");
      }
      const int known = static_cast<int>(*number);
      if (std::find(layer.joined.begin(), layer.joined.end(), known) != layer.joined.end()) {
        fail(what, "a second time", "each at most once");
      }
      layer.joined.push_back(known);
      width += kept_[static_cast<std::size_t>(known)].width;
      points |= kept_[static_cast<std::size_t>(known)].on_points;
    }
    if (!points) fail(fields.what, "vectors only", "at least one kept value of points");
    if (width > kMaxWidth) {
      fail(fields.what, std::to_string(width) + " bits a point", "at most " + std::to_string(kMaxWidth));
    }
    become(Kind::point_bits, layer.outputs = static_cast<int>(width));
  }

  // A new value, which takes nothing of the one before.
  static void start(Layer& layer) {
    layer.inputs = 0;
    layer.on_points = false;
  }

  void remember(const Fields& fields, Layer& layer) {
    layer.kept = static_cast<int>(kept_.size());
    kept_.push_back({layer.on_points, layer.outputs});
    kept_bits_ += layer.outputs;
    if (kept_.size() > kMaxKept) {
      fail(fields.what, "one kept value more", "at most " + std::to_string(kMaxKept) + " kept values");
    }
    if (kept_bits_ > kMaxKeptBits) {
      fail(fields.what, std::to_string(kept_bits_) + " kept bits", "at most " + std::to_string(kMaxKeptBits));
    }
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
  int categories_;
  bool category_taken_ = false;
  Kind kind_ = Kind::nothing;
  int width_ = 0;
  std::vector<int> matrix_sizes_;
  std::vector<Kept> kept_;
  std::int64_t kept_bits_ = 0;
  std::vector<Layer> layers_;
};

// C strings end at the first NUL; a name with one would reach people cut short.
std::vector<std::string> read_names(const Fields& manifest, const char* key, const char* one) {
  std::vector<std::string> names;
  for (const JsonValue& item : manifest.list(key, 1, kMaxWidth)) {
    const std::string what = manifest.what + ": " + one + " " + decimal(names.size());
    if (item.kind() != JsonValue::Kind::string) fail(what, item.describe(), "a string");
    names.push_back(item.string());
    if (names.back().find('\0') != std::string::npos) fail(what, item.describe(), "a name without the character NUL");
  }
  return names;
}

// Of each category the classes that its points can have.
std::vector<std::vector<int>> read_parts(const Fields& manifest, std::size_t categories, std::size_t classes) {
  const auto count = static_cast<std::int64_t>(categories);
  std::vector<std::vector<int>> parts;
  for (const JsonValue& item : manifest.list("parts", count, count)) {
    const std::string what = manifest.what + ": parts of category " + decimal(parts.size());
    const std::vector<JsonValue> numbers = item.items();
    if (numbers.empty()) fail(what, item.describe(), "a list of one class or more");
    std::int64_t least = 0;
    parts.emplace_back();
    for (const JsonValue& number : numbers) {
      const std::int64_t part = number.integer().value_or(-1);
      if (part < least || part >= static_cast<std::int64_t>(classes)) {
        fail(what, number.describe(), "the numbers of classes, ascending, below " + decimal(classes));
      }
      parts.back().push_back(static_cast<int>(part));
      least = part + 1;
    }
  }
  return parts;
}

void read_golden(const Fields& manifest, Tensors& tensors, Network& network) {
  const Fields golden(manifest.at("golden"), manifest.what + ": golden");
  golden.expect_keys({"seed", "points", "tolerance"});
  network.golden_seed = static_cast<std::uint64_t>(golden.integer("seed", 0, kMaxInteger - 1));
  network.golden_points = static_cast<int>(golden.integer("points", 1, kMaxGoldenPoints));
  network.golden_tolerance = golden.number("tolerance");
  if (network.golden_tolerance < 0) golden.fail_at("tolerance", "0 or more");
  Shape shape = {network.classes.size()};
  if (network.segments) shape.insert(shape.begin(), static_cast<std::uint64_t>(network.golden_points));
  network.golden = tensors.floats<float>("golden", {Dtype::f32}, shape);
}

void read_program(const Fields& manifest, Tensors& tensors, Network& network) {
  Program program(tensors, network.channels, static_cast<int>(network.categories.size()));
  for (const JsonValue& operation : manifest.list("program", 1, kMaxOperations)) program.add(operation);
  program.expect_end(network.classes.size());
  std::move(program).finish(network);
}

void read_manifest(const JsonValue& root, Tensors& tensors, Network& network) {
  const Fields manifest(root, "manifest");
  manifest.integer("format", 1, 1);
  std::vector<std::string> keys = {"format",    "model",   "classes", "channels",
                                   "normalize", "program", "golden",  "training"};
  if (manifest.has("categories")) keys.push_back("categories");
  if (manifest.has("categories") && manifest.has("parts")) keys.push_back("parts");
  manifest.expect_keys(keys);
  manifest.string("model");
  if (manifest.at("training").kind() != JsonValue::Kind::object) manifest.fail_at("training", "an object");
  network.classes = read_names(manifest, "classes", "class");
  if (manifest.has("categories")) network.categories = read_names(manifest, "categories", "category");
  if (manifest.has("parts")) network.parts = read_parts(manifest, network.categories.size(), network.classes.size());
  network.channels = static_cast<int>(manifest.integer("channels", 3, kMaxChannels));
  network.normalize = manifest.choice<bool>("normalize", {{"sphere", true}, {"none", false}});
  read_program(manifest, tensors, network);
  read_golden(manifest, tensors, network);
}

}  // namespace

Network parse(const std::uint8_t* bytes, std::size_t size) {
  Network network;
  Tensors tensors(bytes, size, network.manifest);
  const Json manifest(network.manifest, "manifest");
  read_manifest(manifest.root(), tensors, network);
  tensors.expect_all_used();
  return network;
}

}  // namespace bipointnet
