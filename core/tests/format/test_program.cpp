// The structure of a program: names, operands, kinds, domains, channels and limits. test_operations.cpp tests the
// fields and tensors of each operation.
#include "format/format_errors.h"

using namespace bipointnet;

namespace {

using Names = std::vector<std::string>;

const std::string kPoints = operation("points", {}, {"points"});
const std::string kPool = "\"pool\":\"max\",\"over\":\"points\",\"shift\":\"none\"";

// A program without tensors that has 3 classes.
std::string error_of_program(const std::vector<std::string>& operations, const std::string& task = "classify") {
  PackedFile file;
  file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", program(operations), task);
  file.add_f32("golden", task == "classify" ? std::vector<int>{3} : std::vector<int>{17, 3});
  return error_of(file.bytes());
}

// The points, their signs, their maximum, a set, two kinds of groups of it, and groups of the cloud; then `last`.
std::string error_after_all(const std::string& last) {
  return error_of_program({kPoints, operation("sign", {"points"}, {"signs"}, "\"at\":0"),
                           operation("pool", {"points"}, {"top"}, kPool),
                           operation("farthest", {"points"}, {"chosen"}, count_of(4) + ",\"order\":\"index\""),
                           operation("gather", {"points", "chosen"}, {"centers"}),
                           operation("nearest", {"centers", "points"}, {"near"}, count_of(2) + ",\"dilation\":1"),
                           operation("gather", {"points", "near"}, {"neighbors"}),
                           operation("nearest", {"centers", "centers"}, {"own"}, count_up_to(2) + ",\"dilation\":1"),
                           operation("gather", {"signs", "near"}, {"bits"}),
                           operation("nearest", {"top", "points"}, {"whole"}, count_of(2) + ",\"dilation\":1"), last});
}

std::string last(const std::string& op, const std::string& rest) { return "operation 10 \"y\", " + op + ": " + rest; }

void test_operations_are_objects_with_known_keys() {
  const auto with = [](const std::string& sign) { return error_of_program({kPoints, sign}); };
  const std::string places = "\"in\":[\"points\"],\"out\":[\"y\"]";
  CHECK_ERROR(with("{\"op\":\"cosine\"," + places + "}"), "operation 1: op \"cosine\", expected points, category, far");
  CHECK_ERROR(with("{}"), "operation 1: no key op");
  CHECK_ERROR(with("7"), "operation 1: 7, expected an object");
  CHECK_ERROR(with("{\"op\":1," + places + "}"), "operation 1: op 1, expected a string");
  CHECK_ERROR(with("{\"op\":\"sign\",\"in\":[\"points\"],\"at\":0}"), "operation 1: no key out");
  CHECK_ERROR(with("{\"op\":\"sign\",\"out\":[\"y\"],\"at\":0}"), "operation 1 \"y\", sign: no key in");
  CHECK_ERROR(with("{\"op\":\"sign\"," + places + "}"), "operation 1 \"y\", sign: no key at");
  CHECK_ERROR(with("{\"op\":\"sign\"," + places + ",\"at\":0,\"outputs\":3}"),
              "operation 1 \"y\", sign: key \"outputs\", expected only the keys op, in, out or at");
  CHECK_ERROR(error_of_program({}), "manifest: program with 0 items, expected 1 to 1024");
  CHECK_ERROR(error_of_program(std::vector<std::string>(1025, kPoints)), "program with 1025 items");
}

void test_names_are_checked() {
  const auto named = [](const std::string& name) {
    return error_of_program({kPoints, operation("sign", {"points"}, {name}, "\"at\":0")});
  };
  const std::string rule = "expected names of 1 to 200 ASCII letters, digits, '_', '-' and '.'";
  for (const char* name : {"", "a b", "a/b", "\xC3\xA4", "a\n", "a\""}) CHECK_ERROR(named(name), rule);
  CHECK_ERROR(named(std::string(201, 'x')), rule);
  for (const std::string& name : {std::string(200, 'x'), std::string("A-z_0.9"), std::string("golden")}) {
    CHECK_ERROR(named(name), "program: ends with bits over the points (3)");
  }
  CHECK_ERROR(error_of_program({kPoints, "{\"op\":\"sign\",\"in\":[\"points\"],\"out\":[7],\"at\":0}"}), rule);
  CHECK_ERROR(named("points"), "operation 1: a second value \"points\", expected names that are made once");
  CHECK_ERROR(error_of_program({kPoints, operation("sign", {"points"}, {"signs"}, "\"at\":0"),
                                operation("bilinear_pool", {"signs"}, {"y", "y"}, "\"outputs\":3," + kPool)}),
              "operation 2: a second value \"y\"");
}

// So a program has no cycles.
void test_values_are_made_before_they_are_read() {
  const std::string rule = "expected the name of a value that an operation before it makes";
  CHECK_ERROR(error_after_all(operation("sign", {"y"}, {"y"}, "\"at\":0")), last("sign", "input \"y\", " + rule));
  CHECK_ERROR(error_after_all(operation("sign", {"z"}, {"y"}, "\"at\":0")), last("sign", "input \"z\", " + rule));
  CHECK_ERROR(error_after_all("{\"op\":\"sign\",\"in\":[1],\"out\":[\"y\"],\"at\":0}"),
              last("sign", "input 1, " + rule));
  CHECK_ERROR(
      error_of_program({kPoints, operation("add", {"points", "b"}, {"a"}), operation("add", {"a", "a"}, {"b"})}),
      "operation 1 \"a\", add: input \"b\"");
}

void test_operands_and_results_are_counted() {
  const auto in = [](const Names& names) { return error_after_all(operation("add", names, {"y"})); };
  CHECK_ERROR(in({}), last("add", "in with 0 items, expected 2"));
  CHECK_ERROR(in({"points"}), last("add", "in with 1 items, expected 2"));
  CHECK_ERROR(in({"points", "points", "points"}), last("add", "in with 3 items, expected 2"));
  CHECK_ERROR(error_after_all(operation("concat", {"points"}, {"y"})), "in with 1 items, expected 2 to 32766");
  const auto search = [](const Names& names) {
    return error_after_all(operation("nearest", names, {"y"}, count_of(2) + ",\"dilation\":1"));
  };
  CHECK_ERROR(search({"points"}), last("nearest", "in with 1 items, expected 2 to 3"));
  CHECK_ERROR(search({"points", "points", "points", "points"}), "in with 4 items, expected 2 to 3");
  CHECK_ERROR(error_after_all(operation("add", {"points", "points"}, {})),
              "operation 10: out with 0 items, expected 1");
  CHECK_ERROR(error_after_all(operation("add", {"points", "points"}, {"y", "z"})), "out with 2 items, expected 1");
  CHECK_ERROR(error_after_all(operation("bilinear_pool", {"bits"}, {"y", "z", "a"}, "\"outputs\":3," + kPool)),
              "operation 10: out with 3 items, expected 1 to 2");
}

void test_kinds_are_checked() {
  const auto error = [](const std::string& op, const Names& in, const std::string& fields = "") {
    return error_after_all(operation(op, in, {"y"}, fields));
  };
  CHECK_ERROR(error("sign", {"bits"}, "\"at\":0"),
              last("sign", "input \"bits\" is bits over the groups \"near\" (3), expected floats"));
  CHECK_ERROR(error("bilinear", {"points"}, "\"outputs\":3,\"groups\":1"),
              last("bilinear", "input \"points\" is floats over the points (3), expected bits"));
  CHECK_ERROR(error("bilinear_pool", {"neighbors"}, "\"outputs\":3," + kPool), "(3), expected bits");
  CHECK_ERROR(error("pool", {"signs"}, kPool), last("pool", "input \"signs\" is bits over the points (3)"));
  CHECK_ERROR(error("pool", {"near"}, kPool),
              "input \"near\" is indices over the groups \"near\" (1), expected floats");
  CHECK_ERROR(error("gather", {"near", "near"}), "(1), expected floats or bits");
  CHECK_ERROR(error("gather", {"points", "points"}),
              "input \"points\" is floats over the points (3), expected indices");
  CHECK_ERROR(error("concat", {"points", "signs"}), "input \"signs\" is bits over the points (3), expected floats");
  CHECK_ERROR(error("concat", {"signs", "points"}), "input \"points\" is floats over the points (3), expected bits");
  CHECK_ERROR(error("concat", {"chosen", "chosen"}), "expected floats or bits");
  CHECK_ERROR(error("flatten", {"near"}, "\"order\":\"slots\""), "expected floats or bits");
  CHECK_ERROR(error("broadcast", {"chosen", "near"}), "input \"chosen\" is indices over the set \"chosen\" (1)");
  CHECK_ERROR(error("nearest", {"signs", "points"}, count_of(2) + ",\"dilation\":1"), "expected floats");
  CHECK_ERROR(error("nearest", {"points", "points", "signs"}, count_of(2) + ",\"dilation\":1"), "expected floats");
}

void test_domains_are_checked() {
  const auto error = [](const std::string& op, const Names& in, const std::string& fields = "") {
    return error_after_all(operation(op, in, {"y"}, fields));
  };
  const std::string search = count_of(2) + ",\"dilation\":1";
  CHECK_ERROR(error("add", {"points", "centers"}),
              last("add", "input \"centers\" is floats over the set \"chosen\" (3), expected a value over the points"));
  CHECK_ERROR(error("add", {"neighbors", "points"}), "expected a value over the groups \"near\"");
  CHECK_ERROR(error("concat", {"points", "points", "top"}),
              "input \"top\" is floats over the cloud (3), expected a value");
  CHECK_ERROR(error("farthest", {"neighbors"}, count_of(2) + ",\"order\":\"index\""), "expected a value over a set of");
  CHECK_ERROR(error("farthest", {"top"}, count_of(2) + ",\"order\":\"index\""),
              "expected a value over a set of points");
  CHECK_ERROR(error("density", {"neighbors"}, "\"bandwidth\":1"), "expected a value over a set of points");
  // Groups of groups.
  CHECK_ERROR(error("nearest", {"neighbors", "points"}, search),
              last("nearest",
                   "input \"neighbors\" is floats over the groups \"near\" (3), expected a value over a set of "
                   "points or over the cloud"));
  CHECK_ERROR(error("ball", {"neighbors", "points"}, count_of(2) + ",\"radius\":1,\"order\":\"index\""),
              "expected a value over a set of points or over the cloud");
  CHECK_ERROR(error("nearest", {"points", "neighbors"}, search), "expected a value over a set of points");
  CHECK_ERROR(error("nearest", {"points", "centers", "points"}, search), "expected a value over the set \"chosen\"");
  CHECK_ERROR(error("interpolate", {"top", "points", "points"}, "\"guard\":\"limit\",\"epsilon\":0"),
              "input \"top\" is floats over the cloud (3), expected a value over a set of points");
  CHECK_ERROR(error("interpolate", {"points", "centers", "points"}, "\"guard\":\"limit\",\"epsilon\":0"),
              "expected a value over the set \"chosen\"");
  CHECK_ERROR(error("gather", {"neighbors", "near"}), "expected a value over a set of points");
  CHECK_ERROR(error("gather", {"points", "own"}),
              last("gather", "input \"own\" is indices over the groups \"own\" (1), expected indices into the points"));
  CHECK_ERROR(error("gather", {"centers", "near"}), "expected indices into the set \"chosen\"");
  CHECK_ERROR(error("broadcast", {"points", "near"}),
              last("broadcast",
                   "input \"points\" is floats over the points (3), expected a value over an ancestor of the "
                   "groups \"near\""));
  CHECK_ERROR(error("broadcast", {"points", "points"}), "expected a value over an ancestor of the points");
  CHECK_ERROR(error("broadcast", {"neighbors", "points"}), "expected a value over an ancestor of the points");
  CHECK_ERROR(error("broadcast", {"centers", "whole"}), "expected a value over an ancestor of the groups \"whole\"");
  CHECK_ERROR(error("pool", {"top"}, kPool), last("pool",
                                                  "input \"top\" is floats over the cloud (3), expected a value "
                                                  "over points or groups"));
  CHECK_ERROR(error("size", {"top"}, "\"over\":\"points\""), "expected a value over points or groups");
  CHECK_ERROR(error("outer", {"top", "top"}), "expected a value over points or groups");
  CHECK_ERROR(error("outer", {"neighbors", "points"}), "expected a value over the groups \"near\"");
  CHECK_ERROR(error("transform", {"centers", "neighbors"}, "\"outputs\":1"), "or an ancestor of it");
  CHECK_ERROR(error("transform", {"points", "centers"}, "\"outputs\":1"),
              "expected a value over the points or an ancestor of it");
  CHECK_ERROR(error("bilinear_float", {"bits", "points"}, "\"outputs\":1,\"activation\":\"none\",\"groups\":3"),
              "expected a value over the groups \"near\"");
}

void test_flatten_and_mix_read_groups_of_a_fixed_size() {
  const auto error = [](const Names& in, const std::string& op, const std::string& fields = "") {
    return error_after_all(program({operation("gather", {"centers", "own"}, {"x"}), operation(op, in, {"y"}, fields)}));
  };
  const std::string rule = "expected a value over groups whose least equals most", slots = "\"order\":\"slots\"";
  CHECK_ERROR(error({"x"}, "flatten", slots), "input \"x\" is floats over the groups \"own\" (3), " + rule);
  CHECK_ERROR(error({"points"}, "flatten", slots), "input \"points\" is floats over the points (3), " + rule);
  CHECK_ERROR(error({"top"}, "flatten", slots), rule);
  CHECK_ERROR(error({"x"}, "flatten", slots), rule);
  CHECK_ERROR(error({"centers", "x"}, "mix"), "input \"x\" is floats over the groups \"own\" (3), " + rule);
  CHECK_ERROR(error({"centers", "neighbors"}, "mix"),
              "input \"centers\" is floats over the set \"chosen\" (3), expected 4 "
              "channels");
  CHECK_ERROR(error({"points", "neighbors"}, "mix"), "expected a value over the set \"chosen\"");
}

void test_channels_are_checked() {
  const auto error = [](const std::string& op, const Names& in, const std::string& fields = "") {
    return error_after_all(
        program({operation("slice", {"points"}, {"two"}, "\"from\":0,\"to\":2"),
                 operation("slice", {"points"}, {"one"}, "\"from\":2,\"to\":3"),
                 operation("slice", {"centers"}, {"pair"}, "\"from\":1,\"to\":3"), operation(op, in, {"y"}, fields)}));
  };
  CHECK_ERROR(error("add", {"points", "two"}), "input \"two\" is floats over the points (2), expected 3 channels or 1");
  CHECK_ERROR(error("divide", {"two", "points"}),
              "input \"points\" is floats over the points (3), expected 2 channels");
  CHECK_ERROR(error("add", {"one", "points"}), "program: ");
  CHECK_ERROR(error("nearest", {"pair", "points"}, count_of(2) + ",\"dilation\":1"),
              "input \"points\" is floats over the points (3), expected 2 channels");
  CHECK_ERROR(error("interpolate", {"points", "pair", "pair"}, "\"guard\":\"limit\",\"epsilon\":0"),
              "expected 3 channels");
  CHECK_ERROR(error("transform", {"points", "top"}, "\"outputs\":2"),
              "input \"top\" is floats over the cloud (3), expected 6 channels");
  CHECK_ERROR(error("transform", {"one", "top"}, "\"outputs\":3"), "program: ");
  CHECK_ERROR(error("bilinear_float", {"signs", "two"}, "\"outputs\":3,\"activation\":\"none\",\"groups\":3"),
              "input \"two\" is floats over the points (2), expected 3 channels");
  // Channels of a result.
  const std::string wide = operation("flatten", {"neighbors"}, {"flat"}, "\"order\":\"slots\"");
  const auto widened = [&](int times, const std::string& op) {
    std::vector<std::string> operations = {wide};  // 6 channels
    Names values(static_cast<std::size_t>(times), "flat");
    operations.push_back(operation("concat", values, {"wider"}));
    operations.push_back(operation(op, {"wider", "wider"}, {"y"}));
    return error_after_all(program(operations));
  };
  CHECK_ERROR(widened(5462, "add"), "\"wider\" with 32772 channels, expected at most 32766");
  CHECK_ERROR(widened(5461, "concat"), "operation 12 \"y\", concat: \"y\" with 65532 channels, expected at most 32766");
  CHECK_ERROR(widened(100, "outer"), "operation 12 \"y\", outer: \"y\" with 360000 channels, expected at most 32766");
}

void test_the_program_begins_with_the_points() {
  CHECK_ERROR(error_of_program({operation("category", {}, {"c"})}),
              "operation 0 \"c\", category: the first operation, expected points");
  CHECK_ERROR(error_of_program({kPoints, operation("points", {}, {"again"})}),
              "operation 1 \"again\", points: a second operation points, expected one, the first");
}

void test_the_program_ends_with_one_float_per_class() {
  const std::string pool = operation("pool", {"points"}, {"top"}, kPool);
  CHECK_EQUAL(error_of_program({kPoints, pool}), "");
  CHECK_EQUAL(error_of_program({kPoints}, "semantic"), "");
  CHECK_ERROR(error_of_program({kPoints}),
              "program: ends with floats over the points (3), expected floats over the cloud "
              "(3) for task classify, one channel per class");
  CHECK_ERROR(error_of_program({kPoints, pool, operation("sign", {"top"}, {"y"}, "\"at\":0")}),
              "ends with bits over the");
  CHECK_ERROR(error_of_program({kPoints, pool, operation("concat", {"top", "top"}, {"y"})}),
              "over the cloud (6), expected");
  // Per point means per input point.
  CHECK_ERROR(
      error_of_program({kPoints, operation("farthest", {"points"}, {"s"}, count_of(17) + ",\"order\":\"index\""),
                        operation("gather", {"points", "s"}, {"y"})},
                       "semantic"),
      "program: ends with floats over the set \"s\" (3), expected floats over the points (3) for task semantic");
}

void test_every_value_is_read() {
  const std::string pool = operation("pool", {"points"}, {"top"}, kPool);
  CHECK_ERROR(error_of_program({kPoints, operation("sign", {"points"}, {"idle"}, "\"at\":0"), pool}),
              "program: no operation reads \"idle\", expected only values that are read");
  PackedFile file = small_file();
  file.manifest = replaced(file.manifest, "\"out\":[\"pooled\"]", "\"out\":[\"pooled\",\"second\"]");
  file.add_thresholds("pooled.threshold", 4, 3);
  CHECK_ERROR(error_of(file.bytes()), "program: no operation reads \"second\"");
}

void test_domains_are_counted() {
  const auto made = [](int count, const std::string& op, const Names& in, const std::string& fields) {
    std::vector<std::string> operations = {kPoints};
    for (int i = 0; i < count; ++i) operations.push_back(operation(op, in, {"v" + std::to_string(i)}, fields));
    return error_of_program(operations, "semantic");
  };
  const std::string farthest = count_of(2) + ",\"order\":\"index\"", nearest = count_of(2) + ",\"dilation\":1";
  CHECK_ERROR(made(64, "farthest", {"points"}, farthest), "program: ends with indices");
  CHECK_ERROR(made(65, "farthest", {"points"}, farthest),
              "operation 65 \"v64\", farthest: one more set, expected at most 64");
  CHECK_ERROR(made(64, "nearest", {"points", "points"}, nearest), "program: ends with indices");
  CHECK_ERROR(made(65, "nearest", {"points", "points"}, nearest), "nearest: one more search, expected at most 64");
}

}  // namespace

int main() {
  test_operations_are_objects_with_known_keys();
  test_names_are_checked();
  test_values_are_made_before_they_are_read();
  test_operands_and_results_are_counted();
  test_kinds_are_checked();
  test_domains_are_checked();
  test_flatten_and_mix_read_groups_of_a_fixed_size();
  test_channels_are_checked();
  test_the_program_begins_with_the_points();
  test_the_program_ends_with_one_float_per_class();
  test_every_value_is_read();
  test_domains_are_counted();
  return check_report();
}
