// Any bytes give a network or a FormatError that names what was found (docs/format.md). This file tests whole files,
// manifests and programs; test_tensors.cpp tests the container, test_json.cpp the JSON reader.
#include "format/format_errors.h"

using namespace bipointnet;

namespace {

void check_shape(const Layer& layer, Op op, int inputs, int outputs, bool on_points) {
  CHECK(layer.op == op);
  CHECK_EQUAL(layer.inputs, inputs);
  CHECK_EQUAL(layer.outputs, outputs);
  CHECK_EQUAL(layer.on_points, on_points);
}

template <class Float>
void check_numbers(const std::vector<Float>& values, int count) {
  if (!CHECK_EQUAL(values.size(), static_cast<std::size_t>(count))) return;
  for (int i = 0; i < count; ++i) {
    CHECK_EQUAL(values[static_cast<std::size_t>(i)], static_cast<Float>(PackedFile::number(i)));
  }
}

void check_bits(const Layer& layer) {
  const int words = (layer.inputs + 63) / 64;
  if (!CHECK_EQUAL(layer.bits.size(), static_cast<std::size_t>(layer.outputs * words))) return;
  for (int row = 0; row < layer.outputs; ++row) {
    for (int k = 0; k < 64 * words; ++k) {
      const bool bit = layer.bits[static_cast<std::size_t>(row * words + k / 64)] >> k % 64 & 1;
      const bool written = k < layer.inputs && (PackedFile::pattern(row, k / 64) >> k % 64 & 1);
      CHECK_EQUAL(bit, written);
    }
  }
}

void check_thresholds(const Layer& layer) {
  if (!CHECK_EQUAL(layer.threshold.size(), static_cast<std::size_t>(layer.outputs))) return;
  for (int row = 0; row < layer.outputs; ++row) {
    CHECK_EQUAL(layer.threshold[static_cast<std::size_t>(row)], row % (layer.inputs + 2));
  }
}

void test_every_field_of_a_valid_file_arrives() {
  const PackedFile file = full_file();
  const Network network = parse(file.bytes());
  CHECK_EQUAL(network.manifest, file.manifest);
  CHECK(network.classes == (std::vector<std::string>{"chair", "t\xC3\xA4sse"}));
  CHECK_EQUAL(network.channels, 3);
  CHECK(network.normalize);
  CHECK_EQUAL(network.golden_seed, 9007199254740991u);
  CHECK_EQUAL(network.golden_points, 17);
  CHECK_EQUAL(network.golden_tolerance, 1e-4);
  check_numbers(network.golden, 2);

  const std::vector<Layer>& layers = network.layers;
  if (!CHECK_EQUAL(layers.size(), 13u)) return;
  check_shape(layers[0], Op::points, 0, 3, false);
  check_shape(layers[1], Op::dense, 3, 9, true);
  check_shape(layers[2], Op::pool, 9, 9, true);
  check_shape(layers[3], Op::matrix, 9, 3, false);
  check_shape(layers[4], Op::points, 0, 3, false);
  check_shape(layers[5], Op::transform, 3, 3, true);
  check_shape(layers[6], Op::dense, 3, 70, true);
  check_shape(layers[7], Op::sign, 70, 70, true);
  check_shape(layers[8], Op::bilinear, 70, 65, true);
  check_shape(layers[9], Op::bilinear_pool, 65, 64, true);
  check_shape(layers[10], Op::bilinear, 64, 5, false);
  check_shape(layers[11], Op::bilinear_float, 5, 4, false);
  check_shape(layers[12], Op::dense, 4, 2, false);
  CHECK(layers[1].activation == Activation::relu);
  CHECK(layers[6].activation == Activation::hardtanh);
  CHECK(layers[11].activation == Activation::hardtanh);
  CHECK(layers[12].activation == Activation::none);
  CHECK(layers[2].pool == Pool::mean);
  CHECK(layers[9].pool == Pool::max && layers[9].shifted);
  CHECK(layers[3].matrix == 0 && layers[5].matrix == 0);
  check_numbers(layers[1].bias, 9);
  check_numbers(layers[6].weight, 210);
  check_numbers(layers[6].bias, 70);
  check_numbers(layers[9].line, 128);
  check_numbers(layers[11].line, 8);
  check_numbers(layers[12].weight, 8);
  check_numbers(layers[12].bias, 2);
  for (const std::size_t i : {8u, 9u, 10u, 11u}) check_bits(layers[i]);
  for (const std::size_t i : {8u, 10u}) check_thresholds(layers[i]);
}

void test_a_pool_by_mean_arrives() {
  const Network network = parse(small_file().bytes());
  if (!CHECK_EQUAL(network.layers.size(), 4u)) return;
  CHECK(!network.normalize);
  CHECK(network.layers[2].pool == Pool::mean && !network.layers[2].shifted);
  CHECK(network.layers[2].line == (std::vector<double>{0, 0, 1, 0, 2, 0, 3, 0}));
}

void test_thresholds_and_scales_arrive() {
  const Network network = parse(scaled_file().bytes());
  if (!CHECK_EQUAL(network.layers.size(), 9u)) return;
  check_shape(network.layers[1], Op::compare, 3, 3, true);
  CHECK_EQUAL(network.layers[1].at, 0.25f);
  check_shape(network.layers[2], Op::bilinear_float, 3, 9, true);
  check_shape(network.layers[3], Op::sign_scaled, 9, 9, true);
  check_shape(network.layers[4], Op::bilinear_scaled, 9, 70, true);
  check_shape(network.layers[6], Op::shift, 70, 70, false);
  check_shape(network.layers[7], Op::sign_scaled, 70, 70, false);
  check_shape(network.layers[8], Op::bilinear_scaled, 70, 2, false);
  CHECK(network.layers[8].activation == Activation::relu);
}

void test_the_order_of_keys_and_tensors_is_free() {
  PackedFile file = full_file();
  std::reverse(file.tensors.begin(), file.tensors.end());
  file.manifest = replaced(file.manifest, "{\"op\":\"dense\",\"outputs\":9,\"activation\":\"relu\"}",
                           " { \"activation\" : \"relu\" , \"outputs\" : 9 ,\n\t\"op\" : \"dense\" } ");
  CHECK_EQUAL(error_of(file.bytes()), "");
}

void test_every_truncation_is_refused() {
  for (const PackedFile& file : {small_file(), full_file(), scaled_file()}) {
    const Bytes bytes = file.bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!error_of(bytes.data(), size).empty());
  }
  CHECK(!error_of(nullptr, 0).empty());
}

// With a correct checksum, a network or a FormatError: any other exception ends this program.
void test_every_changed_byte_gives_a_network_or_an_error() {
  // Every single bit, and every character with a meaning in JSON. fuzz_format tries the rest.
  std::string others = "\"\\{}[]:,-+.eE019tfn \n/u";
  for (unsigned bit = 0; bit < 8; ++bit) others += static_cast<char>(1u << bit);
  const Bytes file = small_file().bytes();
  long refused = 0;
  long total = 0;
  for (std::size_t at = 0; at + kChecksumBytes < file.size(); ++at) {
    for (std::size_t i = 0; i < others.size(); ++i, ++total) {
      const auto other = static_cast<std::uint8_t>(others[i]);
      Bytes bytes = file;
      bytes[at] = i < others.size() - 8 ? other : static_cast<std::uint8_t>(file[at] ^ other);
      sign(bytes);
      refused += !error_of(bytes).empty();
    }
  }
  CHECK(refused > total / 2 && refused < total);
}

void test_every_flipped_bit_is_refused() { check_every_flipped_bit(full_file()); }

void test_the_manifest_is_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_ERROR(with("\"format\":1", "\"format\":2"), "manifest: format 2, expected");
  CHECK_ERROR(with("\"format\":1", "\"format\":\"1\""), "manifest: format \"1\"");
  CHECK_ERROR(with("\"format\":1", "\"format\":1.0"), "manifest: format 1.0");
  for (const char* key :
       {"format", "model", "task", "classes", "channels", "normalize", "program", "golden", "training"}) {
    const std::string name = json_string(key) + ":";
    CHECK_ERROR(with(name, "\"x\":"), std::string(key) == "format" ? "manifest: no key format" : "manifest: key \"x\"");
    CHECK_ERROR(with(name, name + "null,\"x\":"), "manifest: ");
  }
  CHECK_ERROR(with(",\"training\":{\"accuracy\":0.5}", ""), "manifest: no key training");
  CHECK_ERROR(with("\"model\":\"made up\"", "\"model\":7"), "manifest: model 7, expected a string");
  CHECK_ERROR(with("{\"accuracy\":0.5}", "[]"), "manifest: training a list, expected an object");
  CHECK_ERROR(with("[\"chair\",\"t\\u00e4sse\"]", "[]"), "manifest: classes with 0 items, expected 1 to 32766");
  CHECK_ERROR(with("[\"chair\",\"t\\u00e4sse\"]", "{}"), "manifest: classes an object, expected a list");
  CHECK_ERROR(with("\"chair\"", "3"), "manifest: class 0: 3, expected a string");
  CHECK_ERROR(with("\"chair\"", "\"c\\u0000\""), "manifest: class 0: \"c?\"");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":2"), "manifest: channels 2, expected an integer from 3 to 256");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":257"), "manifest: channels 257");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":6"), "1.weight: shape [9, 3], expected [9, 6]");
  CHECK_ERROR(with("\"sphere\"", "\"cube\""), "manifest: normalize \"cube\", expected sphere or none");
  CHECK_ERROR(with("9007199254740991", "9007199254740992"), "golden: seed 9007199254740992");
  CHECK_ERROR(with("9007199254740991", "-1"), "golden: seed -1");
  CHECK_EQUAL(with("9007199254740991", "0"), "");
  CHECK_ERROR(with("\"points\":17", "\"points\":0"), "golden: points 0, expected an integer from 1 to 4096");
  CHECK_ERROR(with("\"points\":17", "\"points\":4097"), "golden: points 4097");
  CHECK_EQUAL(with("\"points\":17", "\"points\":4096"), "");
  CHECK_ERROR(with("1e-4", "-1e-4"), "golden: tolerance -1e-4, expected 0 or more");
  CHECK_ERROR(with("1e-4", "1e999"), "golden: tolerance 1e999, expected a number");
  CHECK_ERROR(with("1e-4", "NaN"), "manifest: byte");
  CHECK_ERROR(with("1e-4", "true"), "golden: tolerance true");
  CHECK_ERROR(with("\"tolerance\":1e-4", "\"tolerance\":0,\"x\":0"), "golden: key \"x\"");
  CHECK_ERROR(with(",\"tolerance\":1e-4", ""), "golden: no key tolerance");
}

void test_operations_are_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_ERROR(with("{\"op\":\"sign\"}", "{\"op\":\"cosine\"}"),
              "operation 7: op \"cosine\", expected points, transform");
  CHECK_ERROR(with("{\"op\":\"sign\"}", "{}"), "operation 7: no key op");
  CHECK_ERROR(with("{\"op\":\"sign\"}", "7"), "operation 7: 7, expected an object");
  CHECK_ERROR(with("{\"op\":\"sign\"}", "{\"op\":1}"), "operation 7: op 1, expected a string");
  CHECK_ERROR(with("{\"op\":\"sign\"}", "{\"op\":\"sign\",\"outputs\":70}"), "operation 7, sign: key \"outputs\"");
  CHECK_ERROR(with("\"op\":\"bilinear\",\"outputs\":65", "\"op\":\"bilinear\""),
              "operation 8, bilinear: no key outputs");
  CHECK_ERROR(with("\"outputs\":65", "\"outputs\":0"),
              "operation 8, bilinear: outputs 0, expected an integer from 1 to 32766");
  CHECK_ERROR(with("\"outputs\":65", "\"outputs\":32767"), "operation 8, bilinear: outputs 32767");
  CHECK_ERROR(with("\"outputs\":65", "\"outputs\":64"), "8.weight: shape [65, 2], expected [64, 2] for K = 70");
  CHECK_ERROR(with("\"relu\"", "\"gelu\""), "operation 1, dense: activation \"gelu\", expected none, relu or hardtanh");
  CHECK_ERROR(with("\"mean\"", "\"sum\""), "operation 2, pool: pool \"sum\", expected max or mean");
  CHECK_ERROR(with("\"delta\"", "\"d\""), "operation 9, bilinear_pool: shift \"d\", expected none or delta");
  CHECK_ERROR(with("\"max\",\"shift\"", "\"mean\",\"shift\""),
              "operation 9, bilinear_pool: shift \"delta\", expected none");
  CHECK_ERROR(with("\"size\":3", "\"size\":2"), "operation 3, matrix: size 2, expected the square root of 9");
  CHECK_ERROR(with("\"size\":3", "\"size\":182"), "operation 3, matrix: size 182, expected an integer from 1 to 181");
  CHECK_ERROR(with("\"matrix\":0", "\"matrix\":1"),
              "operation 5, transform: matrix 1, expected one of the 1 matrices before it");
  CHECK_ERROR(with("\"matrix\":0", "\"matrix\":-1"), "operation 5, transform: matrix -1");
  CHECK_ERROR(with("\"matrix\":0", "\"matrix\":16"), "operation 5, transform: matrix 16");
}

// Programs without tensors, to test the order of operations only.
std::string error_of_program(const std::string& program) {
  PackedFile file;
  file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", program);
  file.add_f32("golden", {3});
  return error_of(file.bytes());
}

void test_the_order_of_operations_is_checked() {
  const std::string points = "{\"op\":\"points\"}";
  const std::string sign = "{\"op\":\"sign\"}";
  const std::string pool = "{\"op\":\"pool\",\"pool\":\"max\"}";
  const std::string transform = "{\"op\":\"transform\",\"matrix\":0}";
  CHECK_EQUAL(error_of_program(points + "," + pool), "");
  CHECK_ERROR(error_of_program(""), "manifest: program with 0 items, expected 1 to 256");
  CHECK_ERROR(error_of_program(sign), "operation 0, sign: reads nothing, expected point floats or vector floats");
  CHECK_ERROR(error_of_program(points + "," + points),
              "operation 1, points: reads point floats (3), expected nothing or vector bits right after keep");
  CHECK_ERROR(error_of_program(points + "," + sign + "," + sign), "operation 2, sign: reads point bits (3)");
  CHECK_ERROR(error_of_program(points + "," + sign + "," + pool), "operation 2, pool: reads point bits (3)");
  CHECK_ERROR(error_of_program(points + "," + pool + "," + pool), "operation 2, pool: reads vector floats (3)");
  CHECK_ERROR(error_of_program(points + "," + transform),
              "operation 1, transform: matrix 0, expected one of the 0 matrices before it");
  CHECK_ERROR(error_of_program(points + "," + pool + ",{\"op\":\"bilinear\",\"outputs\":3}"),
              "operation 2, bilinear: reads vector floats (3), expected point bits or vector bits");
  const std::string scaled = "{\"op\":\"sign_scaled\"}";
  const std::string line = "\"outputs\":3,\"activation\":\"none\"}";
  CHECK_ERROR(error_of_program(points + "," + scaled + ",{\"op\":\"bilinear_float\"," + line),
              "operation 2, bilinear_float: reads scaled point bits (3), expected point bits or vector bits");
  CHECK_ERROR(error_of_program(points + "," + pool + "," + scaled + ",{\"op\":\"bilinear\",\"outputs\":3}"),
              "operation 3, bilinear: reads scaled vector bits (3), expected point bits or vector bits");
  CHECK_ERROR(error_of_program(points + "," + sign + ",{\"op\":\"bilinear_scaled\"," + line),
              "operation 2, bilinear_scaled: reads point bits (3), expected scaled point bits or scaled vector bits");
  CHECK_ERROR(error_of_program(points + ",{\"op\":\"shift\"}"),
              "operation 1, shift: reads point floats (3), expected vector floats");
  CHECK_EQUAL(error_of_program(points + "," + pool + ",{\"op\":\"shift\"}"), "");
  for (const char* at : {"1e39", "0.1", "-1e-60"}) {
    CHECK_ERROR(error_of_program(points + ",{\"op\":\"compare\",\"at\":" + at + "}"),
                std::string("operation 1, compare: at ") + at + ", expected a number that float32 holds exactly");
  }
  CHECK_ERROR(error_of_program(points + ",{\"op\":\"compare\",\"at\":\"0\"}"), "operation 1, compare: at \"0\"");
  CHECK_ERROR(error_of_program(points + ",{\"op\":\"compare\",\"at\":0.5}"), "program: ends with point bits (3)");
  CHECK_ERROR(
      error_of_program(points + ",{\"op\":\"bilinear_pool\",\"outputs\":3,\"pool\":\"max\",\"shift\":\"none\"}"),
      "operation 1, bilinear_pool: reads point floats (3), expected point bits");
  CHECK_ERROR(error_of_program(points + ",{\"op\":\"matrix\",\"size\":2}"),
              "operation 1, matrix: reads point floats (3), expected vector floats");
  CHECK_ERROR(error_of_program(points), "program: ends with point floats (3), expected vector floats (3) for task");
  CHECK_ERROR(error_of_program(points + "," + pool + "," + sign), "program: ends with vector bits (3)");
  CHECK_ERROR(error_of_program(points + repeated("," + sign, 256)), "program with 257 items, expected 1 to 256");
}

void test_the_program_ends_with_one_float_per_class() {
  CHECK_ERROR(error_after_manifest(full_file(), "[\"chair\",", "[\"chair\",\"table\","),
              "program: ends with vector floats (2), expected vector floats (3) for task classify, one per class");
  CHECK_ERROR(error_after_manifest(full_file(), "{\"op\":\"dense\",\"outputs\":2,\"activation\":\"none\"}",
                                   "{\"op\":\"matrix\",\"size\":2}"),
              "program: ends with nothing");
}

// A program that makes `count` matrices of a size and then multiplies the points by matrix number `use`.
PackedFile file_with_matrices(int count, int use, int size) {
  PackedFile file;
  std::string program;
  for (int i = 0; i < count; ++i) {
    program += "{\"op\":\"points\"},{\"op\":\"dense\",\"outputs\":" + std::to_string(size * size) +
               ",\"activation\":\"none\"},{\"op\":\"pool\",\"pool\":\"max\"},{\"op\":\"matrix\",\"size\":" +
               std::to_string(size) + "},";
    file.add_f32(std::to_string(4 * i + 1) + ".weight", {size * size, 3});
    file.add_f32(std::to_string(4 * i + 1) + ".bias", {size * size});
  }
  program += "{\"op\":\"points\"},{\"op\":\"transform\",\"matrix\":" + std::to_string(use) +
             "},{\"op\":\"pool\",\"pool\":\"max\"}";
  file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", program);
  file.add_f32("golden", {3});
  return file;
}

void test_matrices_are_counted() {
  const Network network = parse(file_with_matrices(16, 15, 2).bytes());
  for (int i = 0; i < 16; ++i) CHECK_EQUAL(network.layers[static_cast<std::size_t>(4 * i + 3)].matrix, i);
  CHECK_EQUAL(network.layers[65].matrix, 15);
  check_shape(network.layers[65], Op::transform, 3, 3, true);
  CHECK_ERROR(error_of(file_with_matrices(15, 15, 2).bytes()),
              "operation 61, transform: matrix 15, expected one of the 15");
  CHECK_ERROR(error_of(file_with_matrices(17, 0, 2).bytes()),
              "operation 67, matrix: one more matrix, expected at most 16");
  CHECK_ERROR(error_of(file_with_matrices(1, 0, 4).bytes()),
              "operation 5, transform: matrix of size 4, expected at most 3, the channels per point");
}

void test_the_task_is_checked() {
  CHECK(parse(full_file().bytes()).task == Task::classify);
  CHECK(parse(segments_file().bytes()).task == Task::part);
  const auto with = [](const PackedFile& file, const std::string& from, const std::string& to) {
    return error_after_manifest(file, "\"task\":\"" + from + "\"", to);
  };
  const PackedFile file = full_file();
  CHECK_ERROR(with(file, "classify", "\"task\":\"detect\""),
              "manifest: task \"detect\", expected classify, part or semantic");
  CHECK_ERROR(with(file, "classify", "\"task\":1"), "manifest: task 1, expected a string");
  CHECK_ERROR(with(file, "classify", "\"tasks\":\"classify\""), "manifest: key \"tasks\"");
  for (const char* task : {"part", "semantic"}) {
    CHECK_ERROR(with(file, "classify", std::string("\"task\":\"") + task + "\""),
                std::string("program: ends with vector floats (2), expected point floats (2) for task ") + task);
  }
  for (const char* task : {"classify", "semantic"}) {
    CHECK_ERROR(with(segments_file(), "part", std::string("\"task\":\"") + task + "\""),
                std::string("manifest: categories with task ") + task + ", expected task part");
  }
  const std::string points = "{\"op\":\"points\"}";
  for (const char* task : {"part", "semantic"}) {
    PackedFile cloud;
    cloud.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", points, task);
    cloud.add_f32("golden", {17, 3});
    CHECK_EQUAL(error_of(cloud.bytes()), "");
    CHECK_EQUAL(std::string(name_of(parse(cloud.bytes()).task)), task);
    cloud.manifest = replaced(cloud.manifest, "\"channels\"", "\"parts\":[[0]],\"channels\"");
    CHECK_ERROR(error_of(cloud.bytes()), task == std::string("part") ? "manifest: parts, expected categories with it"
                                                                     : "manifest: parts with task semantic");
  }
}

}  // namespace

int main() {
  test_every_field_of_a_valid_file_arrives();
  test_a_pool_by_mean_arrives();
  test_thresholds_and_scales_arrive();
  test_the_order_of_keys_and_tensors_is_free();
  test_every_truncation_is_refused();
  test_every_changed_byte_gives_a_network_or_an_error();
  test_every_flipped_bit_is_refused();
  test_the_manifest_is_checked();
  test_operations_are_checked();
  test_the_order_of_operations_is_checked();
  test_the_program_ends_with_one_float_per_class();
  test_the_task_is_checked();
  test_matrices_are_counted();
  return check_report();
}
