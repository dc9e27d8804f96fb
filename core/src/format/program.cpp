// Reads a program operation by operation, each by its row of the table, and infers the kind, the domain and the
// channels of every value.
#include "format/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "format/binding.h"
#include "format/operation_fields.h"
#include "format/operations.h"
#include "format/text.h"

namespace bipointnet {
namespace {

constexpr std::int64_t kMaxOperations = 1024;
constexpr int kMaxDomains = 64;  // sets made by farthest, and groups
constexpr std::size_t kMaxName = 200;

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

class Program {
 public:
  Program(Tensors& tensors, Network& network) : tensors_(tensors), network_(network) {
    network.domains = {{Domain::Type::cloud, -1, -1, {}, false}, {Domain::Type::set, 0, -1, {}, false}};
  }

  void add(const JsonValue& item) {
    Fields fields(item, "operation " + decimal(network_.operations.size()));
    const OperationRule& rule = rule_in(fields);
    const std::vector<std::string> results = result_names(fields, rule);
    fields.what += " " + quoted(results[0]) + ", " + rule.name;
    expect_fields(fields, rule);
    expect_place(fields, rule.op);

    Operation operation;
    operation.op = rule.op;
    operation.in = operands(fields, rule);
    if (!operation.in.empty()) operation.inputs = network_.values[size(operation.in[0])].channels;
    SizeRule count;
    read_fields(fields, rule, operation, count);
    const Binding binding(network_, rule, operation, fields.what);
    check_widths(fields, rule, operation);
    make_results(fields, rule, binding, results, count, operation);
    read_tensors(rule, binding, results[0], operation);
    network_.operations.push_back(std::move(operation));
  }

  void expect_end() const {
    const Value& logits = network_.values[size(network_.operations.back().out[0])];
    const auto classes = static_cast<int>(network_.classes.size());
    const int domain = network_.per_point() ? 1 : 0;
    if (logits.kind != Kind::floats || logits.domain != domain || logits.channels != classes) {
      fail("program", "ends with " + text_of(network_, logits),
           text_of(network_, {"", Kind::floats, domain, classes}) + " for task " + name_of(network_.task) +
               ", one channel per class");
    }
    for (std::size_t i = 0; i < network_.values.size(); ++i) {
      const Value& value = network_.values[i];
      if (!read_[i] && &value != &logits) {
        fail("program", "no operation reads " + quoted(value.name), "only values that are read");
      }
    }
    if (!network_.categories.empty() && !has_category_) {
      fail("manifest", "categories without an operation category", "both or neither");
    }
  }

 private:
  static const OperationRule& rule_in(const Fields& fields) {
    const std::string name = fields.string("op");
    const std::vector<OperationRule>& rules = operation_rules();
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return name == rule.name; });
    if (found != rules.end()) return *found;
    std::vector<std::string> names;
    for (const OperationRule& rule : rules) names.push_back(rule.name);
    fields.fail_at("op", alternatives(names));
  }

  static void expect_fields(const Fields& fields, const OperationRule& rule) {
    std::vector<std::string> keys = {"op", "in", "out"};
    for (const FieldRule& field : rule.fields) keys.push_back(field.name);
    fields.expect_keys(keys);
  }

  // `points` comes first and only there; `category` comes at most once.
  void expect_place(const Fields& fields, Op op) {
    const bool first = network_.operations.empty();
    if (first && op != Op::points) fail(fields.what, "the first operation", "points");
    if (!first && op == Op::points) fail(fields.what, "a second operation points", "one, the first");
    if (op != Op::category) return;
    if (network_.categories.empty()) fail(fields.what, "no categories in the manifest", "the key categories");
    if (std::exchange(has_category_, true)) fail(fields.what, "a second operation category", "at most one");
  }

  std::vector<std::string> result_names(const Fields& fields, const OperationRule& rule) const {
    const auto most = static_cast<std::int64_t>(rule.results.size());
    const std::int64_t least = rule.results.back().optional ? most - 1 : most;
    std::vector<std::string> names;
    for (const JsonValue& item : fields.list("out", least, most)) {
      const std::string name = item.string();
      if (!is_name(name)) {
        fail(fields.what, "out with " + item.describe(), "names of 1 to 200 ASCII letters, digits, '_', '-' and '.'");
      }
      if (numbers_.count(name) != 0 || std::find(names.begin(), names.end(), name) != names.end()) {
        fail(fields.what, "a second value " + quoted(name), "names that are made once");
      }
      names.push_back(name);
    }
    return names;
  }

  std::vector<int> operands(const Fields& fields, const OperationRule& rule) {
    std::int64_t least = 0, most = 0;
    for (const OperandRule& operand : rule.operands) {
      using Times = OperandRule::Times;
      least += operand.times == Times::once ? 1 : operand.times == Times::optional ? 0 : 2;
      most += operand.times == Times::two_or_more ? kMaxWidth : 1;
    }
    std::vector<int> numbers;
    for (const JsonValue& item : fields.list("in", least, most)) {
      const auto found = numbers_.find(item.string());
      if (item.kind() != JsonValue::Kind::string || found == numbers_.end()) {
        fail(fields.what, "input " + item.describe(), "the name of a value that an operation before it makes");
      }
      numbers.push_back(found->second);
      read_[size(found->second)] = true;
    }
    return numbers;
  }

  void make_results(const Fields& fields, const OperationRule& rule, const Binding& binding,
                    const std::vector<std::string>& names, const SizeRule& count, Operation& operation) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const ResultRule& result = rule.results[i];
      const std::uint64_t channels = binding.value(result.channels);
      if (channels > kMaxWidth) {
        fail(fields.what, quoted(names[i]) + " with " + decimal(channels) + " channels",
             "at most " + std::to_string(kMaxWidth));
      }
      const bool same_kind = result.kinds == (kFloats | kBits);
      const Kind kind = same_kind                 ? network_.values[size(operation.in[0])].kind
                        : result.kinds == kFloats ? Kind::floats
                        : result.kinds == kBits   ? Kind::bits
                                                  : Kind::indices;
      operation.out.push_back(static_cast<int>(network_.values.size()));
      numbers_.emplace(names[i], operation.out.back());
      network_.values.push_back(
          {names[i], kind, domain_of(fields, result.place, binding, count, operation), static_cast<int>(channels)});
      read_.push_back(false);
    }
    operation.outputs = network_.values[size(operation.out[0])].channels;
  }

  int domain_of(const Fields& fields, Place place, const Binding& binding, const SizeRule& count,
                const Operation& operation) {
    if (place == Place::new_set) {
      if (++sets_ > kMaxDomains) fail(fields.what, "one more set", "at most " + std::to_string(kMaxDomains));
      const bool capped = operation.order == Order::coordinates;
      network_.domains.push_back({Domain::Type::set, 0, binding.set, count, capped});
    } else if (place == Place::new_groups) {
      if (++groups_ > kMaxDomains) fail(fields.what, "one more search", "at most " + std::to_string(kMaxDomains));
      network_.domains.push_back({Domain::Type::groups, binding.centers, binding.set, count, false});
    } else {
      return binding.domain_of(place);
    }
    return static_cast<int>(network_.domains.size()) - 1;
  }

  void read_tensors(const OperationRule& rule, const Binding& binding, const std::string& result,
                    Operation& operation) {
    for (const TensorRule& tensor : rule.tensors) {
      if (tensor.of_second_result && operation.out.size() < 2) continue;
      read_tensor(tensor, binding, result + "." + tensor.name, operation);
    }
    if (operation.op == Op::bilinear_pool && operation.pool == Pool::mean) expect_no_slope(operation, result);
  }

  void read_tensor(const TensorRule& rule, const Binding& binding, const std::string& name, Operation& operation) {
    const int columns = operation.inputs / operation.groups;
    switch (rule.type) {
      case TensorRule::Type::bits: operation.bits = tensors_.bits(name, operation.outputs, columns); return;
      case TensorRule::Type::thresholds:
        operation.threshold = tensors_.thresholds(name, operation.outputs, columns);
        return;
      default: break;
    }
    Shape shape = {binding.value(rule.rows)};
    if (*rule.columns != '\0') shape.push_back(binding.value(rule.columns));
    const std::string member = rule.name;
    if (member == "line") {
      operation.line = tensors_.floats<double>(name, rule.dtypes, shape);
    } else {
      (member == "weight" ? operation.weight : operation.bias) = tensors_.floats<float>(name, rule.dtypes, shape);
    }
  }

  static void expect_no_slope(const Operation& operation, const std::string& result) {
    for (std::size_t i = 1; i < operation.line.size(); i += 2) {
      if (operation.line[i] != 0) {
        fail(result + ".line", "b = " + printed(operation.line[i]) + " in row " + decimal(i / 2),
             "0 for pool mean");
      }
    }
  }

  Tensors& tensors_;
  Network& network_;
  std::map<std::string, int> numbers_;  // of the values, by name
  std::vector<bool> read_;              // whether an operation reads the value
  bool has_category_ = false;
  int sets_ = 0, groups_ = 0;
};

}  // namespace

void read_program(const Fields& manifest, Tensors& tensors, Network& network) {
  Program program(tensors, network);
  for (const JsonValue& operation : manifest.list("program", 1, kMaxOperations)) program.add(operation);
  program.expect_end();
}

}  // namespace bipointnet
