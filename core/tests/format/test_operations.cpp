// The table of operations: its rows, the fields and tensors of each operation, sizes, costs and limits.
#include "format/operations.h"

#include <algorithm>
#include <new>

#include "format/cost.h"
#include "format/format_errors.h"
#include "format/saturating.h"

using namespace bipointnet;

namespace {

void test_the_table_has_one_row_per_operation() {
  const std::vector<OperationRule>& rules = operation_rules();
  CHECK_EQUAL(rules.size(), static_cast<std::size_t>(Op::bilinear_pool) + 1);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    CHECK_EQUAL(static_cast<std::size_t>(rules[i].op), i);
    CHECK(&rule_of(rules[i].op) == &rules[i]);
    CHECK(!rules[i].results.empty());
    for (std::size_t j = 0; j < i; ++j) CHECK(rules[i].name != std::string(rules[j].name));
  }
  const std::vector<OperationText> texts = operation_texts();
  CHECK_EQUAL(texts.size(), rules.size());
  const OperationText& dense = texts[static_cast<std::size_t>(Op::dense)];
  CHECK_EQUAL(dense.op, "dense");
  CHECK(dense.operands == (std::vector<std::string>{"x: floats over d (K)"}));
  CHECK(dense.results == (std::vector<std::string>{"floats over d (M)"}));
  CHECK(dense.fields ==
        (std::vector<std::string>{"outputs: an integer from 1 to 32766", "activation: none, relu or hardtanh",
                                  "groups: an integer of at least 1 that divides K and M"}));
  CHECK(dense.tensors == (std::vector<std::string>{"weight: F32 or F16 [M, K / G]", "bias: F32 [M]"}));
  CHECK(dense.cost == (std::vector<std::string>{"float_multiply_adds: d M K / G"}));
}

// So every test over these files tests every operation.
void test_the_files_of_the_tests_have_every_operation() {
  std::vector<bool> found(operation_rules().size());
  for (const PackedFile& file : {small_file(), full_file(), segments_file(), scaled_file(), groups_file()}) {
    for (const Operation& operation : parse(file.bytes()).operations) {
      found[static_cast<std::size_t>(operation.op)] = true;
    }
  }
  for (const OperationRule& rule : operation_rules()) {
    if (!found[static_cast<std::size_t>(rule.op)]) CHECK_EQUAL(std::string(rule.name), "in a file");
  }
  CHECK_EQUAL(std::count(found.begin(), found.end(), true), static_cast<std::ptrdiff_t>(found.size()));
}

std::string with(const std::string& from, const std::string& to) {
  return error_after_manifest(groups_file(), from, to);
}

void test_size_rules_are_checked() {
  const std::string rule = "operation 3 \"near\", nearest: count: ";
  const auto count = [](const std::string& text) { return with(count_of(4), "\"count\":" + text); };
  const auto sizes = [&](const std::string& factor, const std::string& least, const std::string& most) {
    return count("{\"factor\":" + factor + ",\"round\":\"ceil\",\"least\":" + least + ",\"most\":" + most + "}");
  };
  CHECK_EQUAL(sizes("1048576", "4", "4"), "");
  CHECK_EQUAL(sizes("-0.0", "4", "4"), "");
  CHECK_ERROR(sizes("1048577", "4", "4"), rule + "factor 1048577, expected a number from 0 to 2^20");
  CHECK_ERROR(sizes("-0.5", "4", "4"), rule + "factor -0.5");
  CHECK_ERROR(sizes("1e999", "4", "4"), rule + "factor 1e999, expected a number");
  CHECK_ERROR(sizes("\"1\"", "4", "4"), rule + "factor \"1\"");
  CHECK_ERROR(sizes("1", "0", "4"), rule + "least 0, expected an integer from 1 to 4096");
  CHECK_ERROR(sizes("1", "4", "3"), rule + "most 3, expected at least 4, as least says");
  CHECK_ERROR(sizes("1", "4", "4097"), rule + "most 4097, expected an integer from 1 to 4096");
  CHECK_ERROR(sizes("1", "4097", "4097"), rule + "least 4097");
  CHECK_ERROR(sizes("1", "4.0", "4"), rule + "least 4.0, expected an integer");
  CHECK_ERROR(count("4"), rule + "4, expected an object");
  CHECK_ERROR(count("{\"factor\":1,\"round\":\"up\",\"least\":1,\"most\":4}"),
              rule + "round \"up\", expected floor, ceil or even");
  CHECK_ERROR(count("{\"factor\":1,\"round\":\"even\",\"least\":1}"), rule + "no key most");
  CHECK_ERROR(count("{\"factor\":1,\"round\":\"even\",\"least\":1,\"most\":4,\"k\":1}"), rule + "key \"k\"");
  CHECK_ERROR(sizes("1", "1", "4"), "expected a value over groups whose least equals most");
  // Sets may be larger than groups.
  CHECK_EQUAL(with("\"most\":8", "\"most\":4294967295"), "");
  CHECK_ERROR(with("\"most\":8", "\"most\":4294967296"), "operation 1 \"chosen\", farthest: count: most 4294967296");
}

void test_choices_are_checked() {
  CHECK_ERROR(with("\"coordinates\"", "\"nearest\""), "farthest: order \"nearest\", expected coordinates or index");
  CHECK_ERROR(with("\"radius\":0.5,\"order\":\"index\"", "\"radius\":0.5,\"order\":\"coordinates\""),
              "ball: order \"coordinates\", expected nearest or index");
  CHECK_ERROR(with("\"order\":\"channels\"", "\"order\":\"index\""), "order \"index\", expected slots or channels");
  CHECK_ERROR(with("\"guard\":\"add\"", "\"guard\":\"max\""), "guard \"max\", expected limit, add or clamp");
  CHECK_ERROR(with("\"leaky_relu\"", "\"gelu\""), "function \"gelu\", expected relu, hardtanh, leaky_relu, abs");
  CHECK_ERROR(with("\"pool\":\"sum\"", "\"pool\":\"min\""), "pool: pool \"min\", expected max, mean or sum");
  CHECK_ERROR(with("\"over\":\"neighbors\",\"shift\"", "\"over\":\"distinct\",\"shift\""),
              "operation 14 \"means\", pool: over \"distinct\", expected points or neighbors");
  CHECK_ERROR(with("\"number\"],\"over\":\"neighbors\"", "\"number\"],\"over\":\"distinct\""),
              "size: over \"distinct\"");
  CHECK_ERROR(with("\"shift\":\"none\"", "\"shift\":\"delta\""), "pool: shift \"delta\", expected none for pool sum");
  CHECK_ERROR(with("\"activation\":\"relu\"", "\"activation\":7"), "affine: activation 7, expected a string");
  const auto bits = [](const std::string& from, const std::string& to) {
    return error_after_manifest(full_file(), from, to);
  };
  const std::string pool = "operation 7 \"pooled\", bilinear_pool: ";
  CHECK_ERROR(bits("\"max\"", "\"sum\""), pool + "pool \"sum\", expected max or mean");
  CHECK_ERROR(bits("\"max\"", "\"mean\""), pool + "shift \"delta\", expected none for pool mean");
  CHECK_ERROR(
      bits("\"max\",\"over\":\"points\",\"shift\":\"delta\"", "\"mean\",\"over\":\"distinct\",\"shift\":\"none\""),
      pool + "over \"distinct\", expected points or neighbors for pool mean");
  CHECK_ERROR(bits("\"max\",\"over\":\"points\"", "\"max\",\"over\":\"all\""),
              pool + "over \"all\", expected points, neighbors or distinct");
  CHECK_ERROR(bits("\"delta\"", "\"d\""), pool + "shift \"d\", expected none or delta");
}

void test_numbers_are_checked() {
  const std::string slope = "operation 10 \"weights\", function: slope ";
  CHECK_ERROR(with("\"slope\":0.1", "\"slope\":1e39"), slope + "1e39, expected a number within the range of float32");
  CHECK_ERROR(with("\"leaky_relu\"", "\"tanh\""), slope + "0.1, expected 0 for function tanh");
  CHECK_EQUAL(with("\"leaky_relu\",\"slope\":0.1", "\"tanh\",\"slope\":0"), "");
  CHECK_EQUAL(with("\"slope\":0.1", "\"slope\":-3"), "");
  CHECK_ERROR(with("\"dilation\":2", "\"dilation\":0"), "dilation 0, expected an integer from 1 to 4096");
  CHECK_ERROR(with("\"dilation\":2", "\"dilation\":4097"), "dilation 4097");
  CHECK_EQUAL(with("\"dilation\":2", "\"dilation\":4096"), "");
  for (const char* field : {"\"radius\":0.5", "\"bandwidth\":0.125"}) {
    const std::string key = std::string(field).substr(0, std::string(field).find(':') + 1);
    for (const char* wrong : {"0", "-1", "1e-20", "1e20", "1e200", "null"}) CHECK(!with(field, key + wrong).empty());
    for (const char* right : {"2e-19", "1", "1e19"}) CHECK_EQUAL(with(field, key + right), "");
  }
  CHECK_ERROR(with("\"radius\":0.5", "\"radius\":1e-20"),
              "ball: radius 1e-20, expected a number above 0 whose square is a normal float32");
  const std::string epsilon = "\"epsilon\":0.0009765625";
  CHECK_ERROR(with(epsilon, "\"epsilon\":0.1"),
              "interpolate: epsilon 0.1, expected a number that float32 holds exactly");
  CHECK_ERROR(with(epsilon, "\"epsilon\":-1"), "interpolate: epsilon -1, expected 0 or more");
  CHECK_ERROR(with("\"add\",\"epsilon\"", "\"limit\",\"epsilon\""), "epsilon 0.0009765625, expected 0 for guard limit");
  CHECK_EQUAL(with("\"add\",\"epsilon\"", "\"clamp\",\"epsilon\""), "");
  for (const char* at : {"1e39", "0.1", "-1e-60", "\"0\""}) {
    CHECK_ERROR(error_after_manifest(scaled_file(), "\"at\":0.25", std::string("\"at\":") + at),
                std::string("operation 1 \"signs\", sign: at ") + at + ", expected a number that ");
  }
}

void test_widths_are_checked() {
  const std::string slice = "\"from\":2,\"to\":14";
  CHECK_ERROR(with(slice, "\"from\":2,\"to\":16"), "operation 22 \"narrow\", slice: to 16, expected at most K = 15");
  CHECK_ERROR(with(slice, "\"from\":2,\"to\":2"), "slice: to 2, expected an integer from 3 to 32766");
  CHECK_ERROR(with(slice, "\"from\":-1,\"to\":2"), "slice: from -1, expected an integer from 0 to");
  CHECK_ERROR(with(slice, "\"from\":2,\"to\":15"), "\"logits\", dense: groups 2, expected a divisor of K = 13");
  CHECK_ERROR(with("\"groups\":2", "\"groups\":3"), "dense: groups 3, expected a divisor of M = 2");
  CHECK_ERROR(with("\"groups\":2", "\"groups\":0"), "dense: groups 0, expected an integer from 1 to 32766");
  CHECK_ERROR(with("\"groups\":2", "\"groups\":1"), "logits.weight: shape [2, 6], expected [2, 12]");
  CHECK_ERROR(error_after_manifest(scaled_file(), "\"scale\"],\"groups\":3", "\"scale\"],\"groups\":2"),
              "operation 3 \"scale\", mean_abs: groups 2, expected a divisor of K = 9");
  const auto outputs = [](const std::string& to) {
    return error_after_manifest(full_file(), "\"outputs\":65", "\"outputs\":" + to);
  };
  CHECK_ERROR(outputs("0"), "operation 6 \"hidden\", bilinear: outputs 0, expected an integer from 1 to 32766");
  CHECK_ERROR(outputs("32767"), "bilinear: outputs 32767");
  CHECK_ERROR(outputs("64"), "hidden.weight: shape [65, 2], expected [64, 2] for K = 70");
}

void test_tensors_belong_to_operations() {
  const auto after = [](const std::function<void(PackedFile&)>& change) {
    return error_after(segments_file(), change);
  };
  CHECK_ERROR(after([](PackedFile& f) { f.remove("pooled.threshold"); }),
              "pooled.threshold: missing tensor, expected one of shape [70]");
  CHECK_ERROR(after([](PackedFile& f) { f.tensor("pooled.threshold").bytes[2] = 7; }),
              "pooled.threshold: threshold 7 in row 1, expected 0 to 6");
  CHECK_ERROR(after([](PackedFile& f) { f.tensor("pooled.threshold").bytes[1] = 0xFF; }), "threshold -256 in row 0");
  CHECK_ERROR(after([](PackedFile& f) { f.tensor("first.weight").name = "local.weight"; }),
              "first.weight: missing tensor");
  CHECK_ERROR(after([](PackedFile& f) { f.add_f32("signs.bias", {3}); }), "signs.bias: tensor that no operation uses");
  // Without a second result there is no threshold.
  CHECK_ERROR(error_after(small_file(), [](PackedFile& f) { f.add_thresholds("pooled.threshold", 4, 3); }),
              "pooled.threshold: tensor that no operation uses");
  // In blocks, thresholds count the columns of a block.
  PackedFile file = full_file();
  file.manifest = replaced(file.manifest, "\"outputs\":65,\"groups\":1", "\"outputs\":65,\"groups\":5");
  CHECK_ERROR(error_of(file.bytes()), "hidden.weight: shape [65, 2], expected [65, 1] for K = 14");
  file.remove("hidden.weight");
  file.add_bits("hidden.weight", 65, 14);
  CHECK_ERROR(error_of(file.bytes()), "hidden.threshold: threshold 16 in row 16, expected 0 to 15");
  CHECK_ERROR(error_after(small_file(), [](PackedFile& f) { f.tensor("pooled.line").bytes[7] = 0x3F; }),
              "pooled.line: b = 0.5 in row 0, expected 0 for pool mean");
}

void test_sizes_follow_their_rules() {
  const auto size = [](double factor, Rounding rounding, std::uint32_t least, std::uint32_t most, std::size_t n) {
    return SizeRule{factor, rounding, least, most}(n);
  };
  CHECK_EQUAL(size(1, Rounding::floor, 1, 64, 17), 17u);
  CHECK_EQUAL(size(1, Rounding::floor, 1, 64, 65), 64u);
  CHECK_EQUAL(size(0, Rounding::floor, 16, 16, 3), 16u);
  CHECK_EQUAL(size(0.5, Rounding::floor, 1, 99, 5), 2u);
  CHECK_EQUAL(size(0.5, Rounding::ceil, 1, 99, 5), 3u);
  CHECK_EQUAL(size(0.5, Rounding::even, 1, 99, 5), 2u);
  CHECK_EQUAL(size(0.5, Rounding::even, 1, 99, 7), 4u);
  CHECK_EQUAL(size(0.25, Rounding::floor, 2, 99, 1), 2u);
  CHECK_EQUAL(size(0x1p20, Rounding::ceil, 1, 0xFFFFFFFFu, 0xFFFFFFFFu), 0xFFFFFFFFu);

  Network network = parse(groups_file().bytes());
  CHECK(network.sizes(17) == (std::vector<std::size_t>{1, 17, 8, 32, 48}));
  CHECK(network.sizes(1) == (std::vector<std::size_t>{1, 1, 1, 4, 1}));
  // A set in the order of coordinates has no point twice.
  network.domains[2].count = {0.0, Rounding::floor, 20, 20};
  CHECK(network.sizes(17) == (std::vector<std::size_t>{1, 17, 17, 68, 102}));
  network.domains[2].capped = false;
  CHECK(network.sizes(17) == (std::vector<std::size_t>{1, 17, 20, 80, 120}));
  network.domains[2].count = {0.0, Rounding::floor, 0xFFFFFFFFu, 0xFFFFFFFFu};
  bool refused = false;
  try {
    CHECK(network.sizes(17)[3] / 4 == 0xFFFFFFFFu);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK_EQUAL(refused, sizeof(std::size_t) == 4);
}

void test_costs_follow_the_table() {
  const auto costs = [](const PackedFile& file, std::size_t points) {
    const Network network = parse(file.bytes());
    std::vector<Cost> costs;
    for (const Operation& operation : network.operations) {
      costs.push_back(cost(network, operation, network.sizes(points)));
    }
    return costs;
  };
  const std::vector<Cost> groups = costs(groups_file(), 17);  // 8 centers, 4 slots
  CHECK_EQUAL(groups[1].distances, 8u * 17 * 3 + 16 * 17 * 3);
  CHECK_EQUAL(groups[3].distances, 8u * 17 * 3 + 16 * 17 * 3);
  CHECK_EQUAL(groups[12].distances, 8u * 17 * 3);  // without ties
  CHECK_EQUAL(groups[7].float_multiply_adds, 32u * 4 * 3);
  CHECK_EQUAL(groups[9].float_multiply_adds, 32u * 4 * 4);
  CHECK_EQUAL(groups[11].float_multiply_adds, 32u * 4 * 3);
  CHECK_EQUAL(groups[17].distances, 8u * 8 * 3);
  CHECK_EQUAL(groups[17].float_multiply_adds, 16u * 8 * 8);
  CHECK_EQUAL(groups[23].distances, 17u * 8 * 3 + 16 * 8 * 3);
  CHECK_EQUAL(groups[24].float_multiply_adds, 17u * 2 * 6);
  const std::vector<Cost> full = costs(full_file(), 100);
  CHECK_EQUAL(full[6].bit_multiply_adds, 100u * 65 * 70);
  CHECK_EQUAL(full[7].bit_multiply_adds, 100u * 64 * 65);
  CHECK_EQUAL(full[9].bit_multiply_adds, 20u);
  CHECK_EQUAL(full[9].float_multiply_adds, 4u);
  CHECK_EQUAL((Cost{5, 640, 3}.weighted()), 5u + 10 + 12);
  CHECK_EQUAL((Cost{5, 640, kSaturated / 2}.weighted()), kSaturated);
  CHECK_EQUAL(saturating_product(kSaturated / 2, 3), kSaturated);
  CHECK_EQUAL(saturating_product(0, kSaturated), 0u);
  CHECK_EQUAL(saturating_sum(kSaturated - 1, 1), kSaturated);
}

// A hostile file cannot demand hours or all memory.
void test_the_golden_cloud_is_bounded() {
  const auto points = [](PackedFile file, int count, int set, const std::string& slots) {
    file.manifest = replaced(file.manifest, "\"points\":17", "\"points\":" + std::to_string(count));
    file.manifest = replaced(file.manifest, count_up_to(8, 0.5), count_of(set));
    file.manifest = replaced(file.manifest, count_of(4) + ",\"dilation\"", slots + ",\"dilation\"");
    file.remove("golden");
    file.add_f32("golden", {count, 2});
    return error_of(file.bytes());
  };
  CHECK_EQUAL(points(groups_file(), 4096, 4096, count_of(4)), "");
  PackedFile file = groups_file();
  file.manifest = replaced(file.manifest, "\"order\":\"coordinates\"", "\"order\":\"index\"");
  CHECK_ERROR(points(file, 17, 2000000, count_of(4)), " words for 17 points, expected at most 268435456");
  CHECK_ERROR(points(file, 4096, 300000, count_of(4)),
              "weighted multiply-adds for 4096 points, expected at most 17179869184");
  CHECK_ERROR(points(file, 17, 2147483647, count_of(4)), "for 17 points, expected at most 268435456");
}

// Few elements take the memory of a block.
void test_the_memory_of_blocks_is_bounded() {
  const auto wide = [](int values, bool of_cloud) {
    std::vector<std::string> operations = {operation("points", {}, {"points"})};
    const std::string pool = "\"pool\":\"max\",\"over\":\"points\",\"shift\":\"none\"";
    if (of_cloud) operations.push_back(operation("pool", {"points"}, {"top"}, pool));
    const std::vector<std::string> copies(10922, of_cloud ? "top" : "points");
    operations.push_back(operation("concat", copies, {"0"}));  // 32766 channels
    for (int i = 1; i < values; ++i) {
      operations.push_back(
          operation("function", {std::to_string(i - 1)}, {std::to_string(i)}, "\"function\":\"tanh\",\"slope\":0"));
    }
    operations.push_back(operation("slice", {std::to_string(values - 1)}, {"logits"}, "\"from\":0,\"to\":2"));
    PackedFile file;
    const std::string task = of_cloud ? "classify" : "semantic";
    file.manifest = packed_manifest("[\"a\",\"b\"]", "none", program(operations), task);
    file.manifest = replaced(file.manifest, "\"points\":17", "\"points\":1");
    file.add_f32("golden", of_cloud ? std::vector<int>{2} : std::vector<int>{1, 2});
    return error_of(file.bytes());
  };
  CHECK_EQUAL(wide(16, false), "");
  CHECK_ERROR(wide(17, false), "words for 1 points, expected at most 268435456");
  CHECK_EQUAL(wide(500, true), "");
}

// Pools have thresholds for every number of neighbors that a group may have.
void test_the_memory_of_thresholds_is_bounded() {
  const auto pool = [](int slots, const std::string& over, const std::string& shift) {
    PackedFile file;
    file.manifest = packed_manifest(
        "[\"a\",\"b\"]", "none",
        program({operation("points", {}, {"points"}), operation("sign", {"points"}, {"signs"}, "\"at\":0"),
                 operation("nearest", {"points", "points"}, {"near"}, count_up_to(slots) + ",\"dilation\":1"),
                 operation("gather", {"signs", "near"}, {"neighbors"}),
                 operation("bilinear_pool", {"neighbors"}, {"pooled"},
                           "\"outputs\":32766,\"pool\":\"max\",\"over\":\"" + over + "\",\"shift\":\"" + shift + "\""),
                 operation("bilinear_float", {"pooled"}, {"logits"},
                           "\"outputs\":2,\"activation\":\"none\",\"groups\":1")}),
        "semantic");
    file.manifest = replaced(file.manifest, "\"points\":17", "\"points\":1");
    file.add_bits("pooled.weight", 32766, 3);
    file.add_f32("pooled.line", {32766, 2});
    file.add_bits("logits.weight", 2, 32766);
    file.add_f32("logits.line", {2, 2});
    file.add_f32("golden", {1, 2});
    return error_of(file.bytes());
  };
  for (const char* over : {"neighbors", "distinct"}) {
    CHECK_EQUAL(pool(4000, over, "delta"), "");
    CHECK_ERROR(pool(4096, over, "delta"), "words for 1 points, expected at most 268435456");
    CHECK_EQUAL(pool(4096, over, "none"), "");
  }
  CHECK_EQUAL(pool(4096, "points", "delta"), "");
}

}  // namespace

int main() {
  test_the_table_has_one_row_per_operation();
  test_the_files_of_the_tests_have_every_operation();
  test_size_rules_are_checked();
  test_choices_are_checked();
  test_numbers_are_checked();
  test_widths_are_checked();
  test_tensors_belong_to_operations();
  test_sizes_follow_their_rules();
  test_costs_follow_the_table();
  test_the_golden_cloud_is_bounded();
  test_the_memory_of_blocks_is_bounded();
  test_the_memory_of_thresholds_is_bounded();
  return check_report();
}
