// The reader on programs that keep values, join them and have a category as input; test_format.cpp tests the rest.
#include "format/format_errors.h"

using namespace bipointnet;

namespace {

void test_every_field_arrives() {
  const Network network = parse(segments_file().bytes());
  CHECK(network.per_point());
  CHECK(network.categories == (std::vector<std::string>{"mug", "l\xC3\xA4mp", "x"}));
  CHECK(network.parts == (std::vector<std::vector<int>>{{0, 1}, {0, 1}, {0}}));
  CHECK_EQUAL(network.golden.size(), 34u);
  if (!CHECK_EQUAL(network.layers.size(), 11u) || !CHECK_EQUAL(network.kept.size(), 5u)) return;
  const bool on_points[5] = {true, true, true, false, false};
  const int widths[5] = {3, 5, 70, 70, 3};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK_EQUAL(network.kept[i].on_points, on_points[i]);
    CHECK_EQUAL(network.kept[i].width, widths[i]);
  }
  CHECK(network.layers[1].op == Op::keep && network.layers[1].kept == 0 && network.layers[1].on_points);
  CHECK(network.layers[5].op == Op::bilinear_pool && network.layers[5].kept == 2);
  CHECK_EQUAL(network.layers[5].threshold.size(), 70u);
  CHECK(network.layers[6].kept == 3 && !network.layers[6].on_points);
  CHECK(network.layers[7].op == Op::category && network.layers[7].inputs == 0 && network.layers[7].outputs == 3);
  CHECK(network.layers[9].op == Op::join && network.layers[9].inputs == 0 && network.layers[9].outputs == 81);
  CHECK(network.layers[9].joined == (std::vector<int>{4, 2, 0, 1}));
  CHECK(!network.layers[9].on_points && network.layers[10].on_points);
  CHECK(!parse(full_file().bytes()).per_point());
  CHECK(parse(full_file().bytes()).layers[9].kept == -1);
}

void test_every_truncation_is_refused() {
  const Bytes bytes = segments_file().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!error_of(bytes.data(), size).empty());
}

void test_every_flipped_bit_is_refused() { check_every_flipped_bit(segments_file()); }

std::string with(const std::string& from, const std::string& to) {
  return error_after_manifest(segments_file(), from, to);
}

void test_joins_are_checked() {
  const std::string joined = "\"kept\":[4,2,0,1]", what = "operation 9, join: ";
  CHECK_ERROR(with(joined, "\"kept\":[4,2,0,5]"),
              what + "kept 5: no such value, expected one of the 5 kept values before it");
  CHECK_ERROR(with(joined, "\"kept\":[-1,2,0,1]"), what + "kept -1: no such value");
  CHECK_ERROR(with(joined, "\"kept\":[4,2,0,1.0]"), what + "kept 1.0: no such value");
  CHECK_ERROR(with(joined, "\"kept\":[4,2,\"0\",1]"), what + "kept \"0\": no such value");
  CHECK_ERROR(with(joined, "\"kept\":[4,2,0,4]"), what + "kept 4: listed twice, expected each at most once");
  CHECK_ERROR(with(joined, "\"kept\":[3,4]"), what + "only vectors, expected at least one kept value of points");
  CHECK_ERROR(with(joined, "\"kept\":[]"), what + "kept with 0 items, expected 1 to 64");
  CHECK_ERROR(with(joined, "\"kept\":4"), what + "kept 4, expected a list");
  CHECK_ERROR(with("," + joined, ""), what + "no key kept");
  CHECK_ERROR(with(joined, "\"kept\":[0]"), "10.weight: shape [2, 2], expected [2, 1] for K = 3");
}

void test_categories_are_checked() {
  const std::string names = "\"categories\":[\"mug\",\"l\\u00e4mp\",\"x\"],";
  CHECK_ERROR(with(names + "\"parts\":[[0,1],[0,1],[0]],", ""),
              "operation 7, category: no categories in the manifest, expected the key categories");
  CHECK_ERROR(with(names, "\"categories\":[],"), "manifest: categories with 0 items, expected 1 to 32766");
  CHECK_ERROR(with(names, "\"categories\":[\"mug\",7,\"x\"],"), "manifest: category 1: 7, expected a string");
  CHECK_ERROR(with(names, "\"categories\":[\"m\\u0000g\",\"l\",\"x\"],"), "manifest: category 0: \"m?g\"");
  CHECK_ERROR(with(names + "\"parts\":[[0,1],[0,1],[0]],", "\"categories\":[\"mug\"],"), "10.weight: pad bits set");
  CHECK_ERROR(with(names, "\"category\":[\"mug\"],"), "manifest: key \"category\"");
  PackedFile file;
  file.manifest = replaced(packed_manifest("[\"a\",\"b\",\"c\"]", "none", "{\"op\":\"points\"}", "part"),
                           "\"channels\"", names + "\"channels\"");
  file.add_f32("golden", {17, 3});
  CHECK_ERROR(error_of(file.bytes()), "manifest: categories without an operation category, expected both or neither");
}

void test_parts_are_checked() {
  const std::string parts = "\"parts\":[[0,1],[0,1],[0]],", rule = "expected ascending class numbers below 2";
  CHECK_EQUAL(with(parts, ""), "");
  CHECK_EQUAL(with(parts, "\"parts\":[[0,1],[0,1]],"), "manifest: parts with 2 items, expected 3");
  CHECK_ERROR(with(parts, "\"parts\":7,"), "manifest: parts 7, expected a list");
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[],[1]],"),
              "manifest: parts of category 1: a list, expected a list of at least one");
  CHECK_ERROR(with(parts, "\"parts\":[0,[0,1],[1]],"),
              "manifest: parts of category 0: 0, expected a list of at least one class");
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[1,0],[1]],"), "manifest: parts of category 1: 0, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[1,1],[1]],"), "manifest: parts of category 1: 1, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[0,1],[2]],"), "manifest: parts of category 2: 2, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[-1],[0,1],[1]],"), "manifest: parts of category 0: -1, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[\"a\"],[0,1],[1]],"), "manifest: parts of category 0: \"a\", " + rule);
  CHECK_ERROR(error_after_manifest(small_file(), "\"channels\"", parts + "\"channels\""),
              "manifest: parts with task classify, expected task part");
}

void test_thresholds_of_pools_are_checked() {
  const auto after = [](const std::function<void(PackedTensor&)>& change) {
    return error_after(segments_file(), [&](PackedFile& file) { change(file.tensor("5.threshold")); });
  };
  CHECK_ERROR(after([](PackedTensor& t) { t.bytes[2] = 7; }), "5.threshold: threshold 7 in row 1, expected 0 to 6");
  CHECK_ERROR(after([](PackedTensor& t) { t.bytes[1] = 0xFF; }), "5.threshold: threshold -256 in row 0");
  CHECK_ERROR(after([](PackedTensor& t) { t.shape = "[35,2]"; }), "5.threshold: shape [35, 2], expected [70]");
  CHECK_ERROR(after([](PackedTensor& t) { t.dtype = "F16"; }), "5.threshold: dtype F16, expected I16");
  // Without it nothing is kept there, and later kept values have other numbers.
  CHECK_ERROR(error_after(segments_file(), [](PackedFile& file) { file.remove("5.threshold"); }),
              "operation 9, join: kept 4: no such value, expected one of the 4 kept values");
  CHECK_ERROR(error_after(small_file(), [](PackedFile& file) { file.add_thresholds("3.threshold", 2, 4); }),
              "3.threshold: tensor that no operation uses");
}

void test_the_golden_vector_has_one_row_per_point() {
  const auto shaped = [](const std::string& shape) {
    return error_after(segments_file(), [&](PackedFile& file) { file.tensor("golden").shape = shape; });
  };
  CHECK_ERROR(shaped("[2,17]"), "golden: shape [2, 17], expected [17, 2]");
  CHECK_ERROR(shaped("[34]"), "golden: shape [34], expected [17, 2]");
  CHECK_ERROR(with("\"points\":17", "\"points\":16"), "golden: shape [17, 2], expected [16, 2]");
}

// Programs without weights, to test the order of operations only.
std::string error_of_program(const std::string& program, const std::vector<int>& golden) {
  PackedFile file;
  file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", program, "semantic");
  file.add_f32("golden", golden);
  return error_of(file.bytes());
}

void test_the_order_of_operations_is_checked() {
  const std::string points = "{\"op\":\"points\"}", keep = ",{\"op\":\"keep\"}", sign = ",{\"op\":\"sign\"}";
  const std::string pool = ",{\"op\":\"pool\",\"pool\":\"max\"}", join = ",{\"op\":\"join\",\"kept\":[0]}";
  const auto error = [](const std::string& program) { return error_of_program(program, {3}); };
  CHECK_EQUAL(error_of_program(points, {17, 3}), "");
  CHECK_EQUAL(error_of_program(points + keep, {17, 3}), "");
  CHECK_ERROR(error(keep.substr(1)),
              "operation 0, keep: reads nothing, expected point bits, point floats or vector bits");
  CHECK_ERROR(error(points + pool + keep), "operation 2, keep: reads vector floats (3), expected point bits");
  CHECK_ERROR(error(points + ",{\"op\":\"sign_scaled\"}" + keep), "operation 2, keep: reads scaled point bits (3)");
  CHECK_ERROR(error(points + keep + join),
              "operation 2, join: reads point floats (3), expected nothing or vector bits right after keep");
  CHECK_ERROR(error(points + sign + keep + join), "operation 3, join: reads point bits (3)");
  CHECK_ERROR(error(points + pool + sign + join), "operation 3, join: reads vector bits (3), expected nothing or");
  CHECK_ERROR(error(points + pool + sign + keep + join), "operation 4, join: only vectors");
  CHECK_ERROR(error(points + keep + pool + join), "operation 3, join: reads vector floats (3)");
  CHECK_ERROR(error(points + keep + pool + sign + keep + join),
              "program: ends with point bits (3), expected point floats");
  CHECK_ERROR(error(points + pool + sign + "," + points), "operation 3, points: reads vector bits (3)");
  CHECK_EQUAL(error_of_program(points + pool + sign + keep + "," + points, {17, 3}), "");
  CHECK_ERROR(error(points + pool + ",{\"op\":\"category\"}"), "operation 2, category: reads vector floats (3)");
  CHECK_ERROR(error(join.substr(1)),
              "operation 0, join: kept 0: no such value, expected one of the 0 kept values before it");
  CHECK_ERROR(error(points + keep + sign + keep), "program: ends with point bits (3)");
}

void test_kept_values_are_counted() {
  const std::string points = "{\"op\":\"points\"}", keep = ",{\"op\":\"keep\"}";
  CHECK_EQUAL(error_of_program(points + repeated(keep, 64), {17, 3}), "");
  CHECK_ERROR(error_of_program(points + repeated(keep, 65), {17, 3}),
              "operation 65, keep: one more kept value, expected at most 64 kept values");
  PackedFile file;
  const auto wide = [&](int times) {
    file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none",
                                    points + ",{\"op\":\"dense\",\"outputs\":32766,\"activation\":\"none\"}" +
                                        repeated(keep, times) + ",{\"op\":\"pool\",\"pool\":\"max\"}," +
                                        "{\"op\":\"sign\"},{\"op\":\"keep\"},{\"op\":\"join\",\"kept\":[0,1]}");
    return error_of(file.bytes());
  };
  file.add_f32("1.weight", {32766, 3});
  file.add_f32("1.bias", {32766});
  file.add_f32("golden", {3});
  CHECK_ERROR(wide(2), "operation 6, keep: 98298 kept bits, expected at most 65536");
  CHECK_ERROR(wide(1), "operation 6, join: 65532 bits per point, expected at most 32766");
}

}  // namespace

int main() {
  test_every_field_arrives();
  test_every_truncation_is_refused();
  test_every_flipped_bit_is_refused();
  test_joins_are_checked();
  test_categories_are_checked();
  test_parts_are_checked();
  test_thresholds_of_pools_are_checked();
  test_the_golden_vector_has_one_row_per_point();
  test_the_order_of_operations_is_checked();
  test_kept_values_are_counted();
  return check_report();
}
