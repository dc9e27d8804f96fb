// The operations of a program: one row per operation in rules(), and one function that reads its fields and tensors.
#include "format/program.h"

#include <algorithm>
#include <utility>

namespace bipointnet {
namespace {

constexpr std::int64_t kMaxOperations = 256;
constexpr std::int64_t kMaxMatrices = 16;
constexpr std::int64_t kMaxMatrixSize = 181;  // its square is at most kMaxWidth
constexpr std::int64_t kMaxKept = 64;
constexpr std::int64_t kMaxKeptBits = 65536;

// The kind of the current value of a program.
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

// Reads a program operation by operation and tracks the kind and the width of the current value.
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
    has_category_ |= rule.op == Op::category;
  }

  void expect_end(std::size_t classes, Task task) const {
    const Kind kind = floats(task != Task::classify);
    if (kind_ != kind || static_cast<std::size_t>(width_) != classes) {
      fail("program", "ends with " + text_of(kind_, width_),
           text_of(kind, static_cast<int>(classes)) + " for task " + name_of(task) + ", one per class");
    }
    if (categories_ > 0 && !has_category_) {
      fail("manifest", "categories without an operation category", "both or neither");
    }
  }

  // Moves the layers into `network`.
  void finish(Network& network) && {
    network.layers = std::move(layers_);
    network.kept = std::move(kept_);
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
        {"bilinear_float",
         Op::bilinear_float,
         {K::point_bits, K::vector_bits},
         {"outputs", "activation"},
         &Program::bilinear_float},
        {"bilinear_scaled",
         Op::bilinear_scaled,
         {K::point_scaled, K::vector_scaled},
         {"outputs", "activation"},
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
    const bool kept = kind_ == Kind::vector_bits && layers_.back().op == Op::keep;
    if (reads(kind_) || (kept && reads(Kind::nothing))) return;
    std::vector<std::string> names;
    for (const Kind kind : rule.from) names.push_back(name_of(kind));
    if (reads(Kind::nothing)) names.push_back("vector bits right after keep");
    fail(fields.what, "reads " + text_of(kind_, width_), alternatives(names));
  }

  void points(const Fields&, Layer& layer) {
    start(layer);
    become(Kind::point_floats, layer.outputs = channels_);
  }

  void transform(const Fields& fields, Layer& layer) {
    layer.matrix = static_cast<int>(fields.integer("matrix", 0, kMaxMatrices - 1));
    const auto number = static_cast<std::size_t>(layer.matrix);
    if (number >= matrix_sizes_.size()) {
      fields.fail_at("matrix", "one of the " + decimal(matrix_sizes_.size()) + " matrices before it, counted from 0");
    }
    if (matrix_sizes_[number] > width_) {
      fail(fields.what, "matrix of size " + std::to_string(matrix_sizes_[number]),
           "at most " + std::to_string(width_) + ", the channels per point");
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
    if (static_cast<double>(layer.at) != at) fields.fail_at("at", "a number that float32 holds exactly");
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
      fail(fields.what, "one more matrix", "at most " + std::to_string(kMaxMatrices) + " matrices");
    }
    if (layer.outputs * layer.outputs != layer.inputs) {
      fields.fail_at("size", "the square root of " + std::to_string(layer.inputs) + ", the length of the vector");
    }
    matrix_sizes_.push_back(layer.outputs);
    become(Kind::nothing, 0);
  }

  void keep(const Fields& fields, Layer& layer) { remember(fields, layer); }

  void category(const Fields& fields, Layer& layer) {
    start(layer);
    if (categories_ == 0) fail(fields.what, "no categories in the manifest", "the key categories");
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
        fail(what, "no such value", "one of the " + decimal(kept_.size()) + " kept values before it, counted from 0");
      }
      const int known = static_cast<int>(*number);
      if (std::find(layer.joined.begin(), layer.joined.end(), known) != layer.joined.end()) {
        fail(what, "listed twice", "each at most once");
      }
      layer.joined.push_back(known);
      width += kept_[static_cast<std::size_t>(known)].width;
      points |= kept_[static_cast<std::size_t>(known)].on_points;
    }
    if (!points) fail(fields.what, "only vectors", "at least one kept value of points");
    if (width > kMaxWidth) {
      fail(fields.what, std::to_string(width) + " bits per point", "at most " + std::to_string(kMaxWidth));
    }
    become(Kind::point_bits, layer.outputs = static_cast<int>(width));
  }

  // The operation starts a new value and does not read the current one.
  static void start(Layer& layer) {
    layer.inputs = 0;
    layer.on_points = false;
  }

  void remember(const Fields& fields, Layer& layer) {
    layer.kept = static_cast<int>(kept_.size());
    kept_.push_back({layer.on_points, layer.outputs});
    kept_bits_ += layer.outputs;
    if (kept_.size() > kMaxKept) {
      fail(fields.what, "one more kept value", "at most " + std::to_string(kMaxKept) + " kept values");
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
        "activation", {{"none", Activation::none}, {"relu", Activation::relu}, {"hardtanh", Activation::hardtanh}});
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
  bool has_category_ = false;
  Kind kind_ = Kind::nothing;
  int width_ = 0;
  std::vector<int> matrix_sizes_;
  std::vector<Kept> kept_;
  std::int64_t kept_bits_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace

void read_program(const Fields& manifest, Tensors& tensors, Network& network) {
  Program program(tensors, network.channels, static_cast<int>(network.categories.size()));
  for (const JsonValue& operation : manifest.list("program", 1, kMaxOperations)) program.add(operation);
  program.expect_end(network.classes.size(), network.task);
  std::move(program).finish(network);
}

}  // namespace bipointnet
