// Any bytes give a network or a FormatError that says what was found: see docs/format.md.
#include <cmath>
#include <functional>
#include <limits>

#include "check.h"
#include "json.h"
#include "network.h"
#include "packed_writer.h"

using namespace bipointnet;

namespace {

Network parse(const Bytes& bytes) { return bipointnet::parse(bytes.data(), bytes.size()); }

// What parse() says, "" where it finds a network. Copied to a block of the exact size, so that a sanitizer sees a read
// of the byte past the end.
std::string error_of(const std::uint8_t* bytes, std::size_t size) {
  const std::vector<std::uint8_t> exact(bytes, bytes + size);
  try {
    bipointnet::parse(exact.data(), exact.size());
  } catch (const FormatError& error) {
    return *error.what() ? error.what() : "an error without a word";
  }
  return "";
}

std::string error_of(const Bytes& bytes) { return error_of(bytes.data(), bytes.size()); }

std::string json_error_of(const std::string& text) {
  try {
    Json json(text, "text");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The message `error` has `part` in it.
#define CHECK_SAYS(error, part)                                                                  \
  do {                                                                                           \
    const std::string said = (error);                                                            \
    const bool holds = ::bipointnet::check(contains(said, part), __FILE__, __LINE__, #error);    \
    if (!holds) std::cerr << "  said     " << said << "\n  expected " << (part) << "\n";         \
  } while (false)

// The message about full_file() or small_file() after a change.
std::string error_after(PackedFile file, const std::function<void(PackedFile&)>& change) {
  change(file);
  return error_of(file.bytes());
}

std::string error_after_manifest(const PackedFile& file, const std::string& from, const std::string& to) {
  return error_after(file, [&](PackedFile& f) { f.manifest = replaced(f.manifest, from, to); });
}

std::string error_after_header(const PackedFile& file, const std::string& from, const std::string& to) {
  return error_of(assembled(replaced(file.header(), from, to), file.body()));
}

void set_f32(PackedFile& file, const std::string& name, std::size_t i, float value) {
  Bytes number;
  append_f32(number, value);
  std::copy(number.begin(), number.end(), file.tensor(name).bytes.begin() + static_cast<std::ptrdiff_t>(4 * i));
}

void set_i16(PackedFile& file, const std::string& name, std::size_t i, int value) {
  file.tensor(name).bytes[2 * i] = static_cast<std::uint8_t>(value);
  file.tensor(name).bytes[2 * i + 1] = static_cast<std::uint8_t>(value >> 8);
}

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

void test_f16_is_widened_exactly() {
  const Network network = parse(full_file().bytes());
  const std::vector<float>& weight = network.layers[1].weight;
  const std::vector<float> expected = {1.0f,            -2.0f, 65504.0f, 0x1p-14f, 0x1p-24f,
                                       1023 * 0x1p-24f, 0.0f,  -0.0f,    -0x1p-24f};
  if (!CHECK_EQUAL(weight.size(), 27u)) return;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    CHECK_EQUAL(weight[i], expected[i % 9]);
    CHECK_EQUAL(std::signbit(weight[i]), std::signbit(expected[i % 9]));
  }
}

// Every F16 against its definition: (-1)^sign 2^(exponent - 15) (1 + fraction / 1024), or 2^-14 fraction / 1024.
void test_every_finite_f16_is_widened_exactly() {
  PackedFile file = full_file();
  file.remove("1.weight");
  std::vector<std::uint16_t> halves;
  for (unsigned half = 0; half < 0x10000; ++half) {
    if ((half >> 10 & 31) != 31) halves.push_back(static_cast<std::uint16_t>(half));
  }
  for (std::size_t start = 0; start < halves.size(); start += 27) {
    std::vector<std::uint16_t> some(27, 0);
    for (std::size_t i = 0; i < 27 && start + i < halves.size(); ++i) some[i] = halves[start + i];
    PackedFile one = file;
    one.add_f16("1.weight", {9, 3}, some);
    const Network network = parse(one.bytes());
    for (std::size_t i = 0; i < 27; ++i) {
      const int exponent = some[i] >> 10 & 31;
      const double fraction = (some[i] & 1023) / 1024.0;
      const double size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
      const double expected = some[i] >> 15 ? -size : size;
      const float found = network.layers[1].weight[i];
      if (static_cast<double>(found) != expected || std::signbit(found) != (some[i] >> 15 != 0)) {
        CHECK_EQUAL(static_cast<double>(found), expected);
      }
    }
  }
}

void test_the_order_of_keys_and_tensors_is_free() {
  PackedFile file = full_file();
  std::reverse(file.tensors.begin(), file.tensors.end());
  file.manifest = replaced(file.manifest, "{\"op\":\"dense\",\"outputs\":9,\"activation\":\"relu\"}",
                           " { \"activation\" : \"relu\" , \"outputs\" : 9 ,\n\t\"op\" : \"dense\" } ");
  CHECK_EQUAL(error_of(file.bytes()), "");
}

void test_every_truncation_is_refused() {
  for (const PackedFile& file : {small_file(), full_file()}) {
    const Bytes bytes = file.bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!error_of(bytes.data(), size).empty());
  }
  CHECK(!error_of(nullptr, 0).empty());
}

// Nothing but a network or a FormatError: an exception of another kind would end this program.
void test_every_changed_byte_gives_a_network_or_an_error() {
  Bytes bytes = small_file().bytes();
  long refused = 0;
  long total = 0;
  for (std::uint8_t& byte : bytes) {
    const std::uint8_t kept = byte;
    for (unsigned change = 1; change < 256; ++change, ++total) {
      byte = static_cast<std::uint8_t>(kept ^ change);
      refused += !error_of(bytes).empty();
    }
    byte = kept;
  }
  CHECK(refused > total / 2 && refused < total);
}

void test_every_flipped_bit_gives_a_network_or_an_error() {
  Bytes bytes = full_file().bytes();
  const std::size_t end = bytes.size() - full_file().body().size();
  for (std::size_t bit = 0; bit < 8 * end; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1u << bit % 8);
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ mask);
    error_of(bytes);
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ mask);
  }
  CHECK_EQUAL(error_of(bytes), "");
}

void test_the_length_of_the_header_is_checked() {
  const auto with_length = [](std::uint64_t length, std::size_t size) {
    Bytes bytes;
    append_word(bytes, length);
    bytes.resize(8 + size, ' ');
    return error_of(bytes);
  };
  CHECK_SAYS(error_of(Bytes(7, 0)), "file: 7 bytes, expected 8 or more");
  CHECK_SAYS(with_length(0, 0), "header: no '{'");
  CHECK_SAYS(with_length(16, 8), "header: length 16, expected at most the 8 bytes");
  CHECK_SAYS(with_length(~std::uint64_t{0}, 8), "length 18446744073709551615, expected at most 16777216");
  CHECK_SAYS(with_length((16u << 20) + 8, (16u << 20) + 8), "header: length 16777224");
  CHECK_SAYS(with_length(9, 16), "header: length 9, expected a multiple of 8");
  CHECK_SAYS(with_length(16, 16), "header: no '{'");
}

void test_a_header_that_is_no_json_is_refused() {
  const Bytes body = small_file().body();
  const std::string header = small_file().header();
  CHECK_SAYS(error_of(assembled(header + "x", body)), "header: byte " + std::to_string(header.size()) + ": found 'x'");
  CHECK_SAYS(error_of(assembled(replaced(header, "\"F32\"", "\"F\xFF\""), body)), "found byte 0xff, expected UTF-8");
  CHECK_SAYS(error_of(assembled(replaced(header, "\"F32\"", std::string(70, '[') + std::string(70, ']')), body)),
             "at most 64 lists and objects");
  CHECK_SAYS(error_of(assembled("{\"__metadata__\":" + std::string(1u << 20, '['), {})), "at most 64");
  CHECK_SAYS(error_of(assembled("{}", {})), "header: no key __metadata__");
}

void test_duplicate_keys_are_refused() {
  const PackedFile file = full_file();
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.tensor("1.bias").name = "6.bias"; }), "key \"6.bias\" twice");
  CHECK_SAYS(error_after_header(file, "\"1.bias\"", "\"6.\\u0062ias\""), "key \"6.bias\" twice");
  CHECK_SAYS(error_after_header(file, "\"dtype\":", "\"shape\":[1],\"dtype\":"), "header: byte");
  CHECK_SAYS(error_after_header(file, "\"dtype\":", "\"shape\":[1],\"dtype\":"), "key \"shape\" twice");
  CHECK_SAYS(error_after_header(file, "{\"bipointnet\":", "{\"bipointnet\":\"\",\"bipointnet\":"),
             "key \"bipointnet\" twice");
  CHECK_SAYS(error_after_manifest(file, "\"format\":1,", "\"format\":1,\"format\":1,"), "manifest: byte 0");
  CHECK_SAYS(error_after_manifest(file, "\"accuracy\"", "\"x\":[{\"y\":1,\"y\":2}],\"accuracy\""), "key \"y\" twice");
  CHECK_SAYS(error_after_manifest(file, "{\"op\":\"sign\"}", "{\"op\":\"sign\",\"op\":\"sign\"}"), "key \"op\" twice");
}

void test_the_metadata_is_one_string() {
  const PackedFile file = small_file();
  const std::string metadata = "\"__metadata__\":{\"bipointnet\":" + json_string(file.manifest) + "}";
  const auto with = [&](const std::string& text) { return error_after_header(file, metadata, text); };
  CHECK_SAYS(with("\"__metadata__\":{}"), "__metadata__: no key bipointnet");
  CHECK_SAYS(with("\"__metadata__\":{\"bipointnet\":1}"), "__metadata__: bipointnet 1, expected a string");
  CHECK_SAYS(with("\"__metadata__\":[]"), "__metadata__: a list, expected an object");
  CHECK_SAYS(with("\"__metadata__\":{\"bipointnet\":\"{}\",\"format\":\"pt\"}"), "__metadata__: key \"format\"");
  CHECK_SAYS(with("\"__metadata__\":{\"bipointnet\":\"\"}"), "manifest: byte 0: found the end");
  CHECK_SAYS(with("\"__metadata__\":{\"bipointnet\":\"[]\"}"), "manifest: a list, expected an object");
  CHECK_SAYS(with("\"__metadata__\":{\"bipointnet\":\"{}\"}"), "manifest: no key format");
}

void test_entries_of_tensors_are_checked() {
  const PackedFile file = full_file();
  CHECK_SAYS(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":\"BF16\""),
             "1.weight: dtype \"BF16\", expected U64");
  CHECK_SAYS(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":16"), "1.weight: dtype 16");
  CHECK_SAYS(error_after_header(file, "\"dtype\":\"F16\",", ""), "1.weight: no key dtype");
  CHECK_SAYS(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":\"F16\",\"x\":0"), "1.weight: key \"x\"");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,3,1]"), "1.weight: shape with 3 items");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[]"), "1.weight: shape with 0 items");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":27"), "1.weight: shape 27, expected a list");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,-3]"), "1.weight: shape with -3");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,3.0]"), "1.weight: shape with 3.0");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,\"3\"]"), "1.weight: shape with \"3\"");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,2]"), "1.weight: 54 bytes, expected 36");
  CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,4]"), "1.weight: 54 bytes, expected more");
  CHECK_SAYS(error_after_header(file, "[0,54]", "[0,54,54]"), "1.weight: data_offsets with 3 items");
  CHECK_SAYS(error_after_header(file, "[0,54]", "[54,0]"), "1.weight: data_offsets [54, 0]");
  CHECK_SAYS(error_after_header(file, "[0,54]", "[0,9007199254740992]"),
             "1.weight: data_offsets [0, 9007199254740992]");
  CHECK_SAYS(error_after_header(file, "[0,54]", "[0,9007199254740993]"),
             "1.weight: data_offsets with 9007199254740993");
}

void test_shapes_that_overflow_are_refused() {
  const PackedFile file = full_file();
  // 2^53 * 2^11 = 2^64 = 0, 2^32 * 2^32 = 0, 3 * 6148914691236517206 = 2^64 + 2: the last is no exact JSON integer
  for (const char* shape : {"[9007199254740992,2048]", "[4294967296,4294967296]", "[3,6148914691236517206]",
                            "[9007199254740992,9007199254740992]", "[0,9007199254740992]", "[9007199254740992,0]",
                            "[32766,18446744073709551615]"}) {
    CHECK_SAYS(error_after_header(file, "\"shape\":[9,3]", std::string("\"shape\":") + shape), "1.weight: ");
  }
}

void test_tensors_follow_each_other() {
  // 2.weight [0,32], 2.line [32,64], 3.weight [64,80], 3.line [80,96], golden [96,104]
  const PackedFile file = small_file();
  const auto moved = [&](const std::string& from, const std::string& to) { return error_after_header(file, from, to); };
  CHECK_SAYS(moved("[32,64]", "[0,32]"), "overlap, begins at byte 0, expected byte 32");
  CHECK_SAYS(moved("[32,64]", "[16,48]"), "2.line: overlap, begins at byte 16, expected byte 32, where 2.weight ends");
  const Bytes body = file.body();
  CHECK_SAYS(error_of(assembled(replaced(replaced(file.header(), "[4,2]", "[3,2]"), "[32,64]", "[32,56]"), body)),
             "3.weight: gap, begins at byte 64, expected byte 56, where 2.line ends");
  CHECK_SAYS(error_of(assembled(replaced(replaced(file.header(), "[4,1]", "[3,1]"), "[0,32]", "[8,32]"), body)),
             "2.weight: gap, begins at byte 8, expected byte 0, where the header ends");
  Bytes longer = file.bytes();
  longer.push_back(0);
  CHECK_SAYS(error_of(longer), "file: 1 bytes after golden, expected none");
  PackedFile no_tensors = file;
  no_tensors.tensors.clear();
  CHECK_SAYS(error_of(assembled(no_tensors.header(), Bytes(5, 0))), "file: 5 bytes after the header");
}

void test_tensors_fit_their_operation() {
  const PackedFile file = full_file();
  const auto tensor = [&](const std::string& name, const std::function<void(PackedTensor&)>& change) {
    return error_after(file, [&](PackedFile& f) { change(f.tensor(name)); });
  };
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("8.threshold"); }),
             "8.threshold: no such tensor, expected one of shape [65]");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("8.weight"); }),
             "8.weight: no such tensor, expected one of shape [65, 2] for K = 70");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("golden"); }), "golden: no such tensor");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.add_f32("8.line", {65, 2}); }),
             "8.line: tensor that no operation uses");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.add_f32("01.bias", {9}); }),
             "01.bias: tensor that no operation uses");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.add("nothing", "F32", {0}, {}); }), "nothing: tensor that no");
  CHECK_SAYS(tensor("9.line", [](PackedTensor& t) { t.shape = "[2,64]"; }), "9.line: shape [2, 64], expected [64, 2]");
  CHECK_SAYS(tensor("9.line", [](PackedTensor& t) { t.shape = "[128]"; }), "9.line: shape [128], expected [64, 2]");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("8.weight"); f.add_bits("8.weight", 65, 129); }),
             "8.weight: shape [65, 3], expected [65, 2] for K = 70");
  CHECK_SAYS(tensor("6.bias", [](PackedTensor& t) { t.shape = "[35]", t.dtype = "F64"; }),
             "6.bias: dtype F64, expected F32");
  CHECK_SAYS(tensor("8.weight", [](PackedTensor& t) { t.dtype = "F64"; }), "8.weight: dtype F64, expected U64");
  CHECK_SAYS(tensor("8.threshold", [](PackedTensor& t) { t.dtype = "F16"; }), "8.threshold: dtype F16, expected I16");
  CHECK_SAYS(tensor("1.weight", [](PackedTensor& t) { t.dtype = "I16"; }), "1.weight: dtype I16, expected F32 or F16");
  CHECK_SAYS(tensor("9.line", [](PackedTensor& t) { t.dtype = "U64"; }), "9.line: dtype U64, expected F32 or F64");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("11.line"); f.add_f64("11.line", {4, 2}); }),
             "11.line: dtype F64, expected F32");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("golden"); f.add_f64("golden", {2}); }),
             "golden: dtype F64, expected F32");
  CHECK_SAYS(error_after(file, [](PackedFile& f) { f.remove("golden"); f.add_f32("golden", {3}); }),
             "golden: shape [3], expected [2]");
}

void test_numbers_in_tensors_are_checked() {
  const PackedFile file = full_file();
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"1.bias", "6.weight", "6.bias", "11.line", "12.weight", "12.bias", "golden"}) {
    for (const float value : {inf, -inf, nan}) {
      const std::string error = error_after(file, [&](PackedFile& f) { set_f32(f, name, 1, value); });
      CHECK_SAYS(error, std::string(name) + ": ");
      CHECK_SAYS(error, "as number 1, expected finite numbers");
    }
  }
  for (const unsigned half : {0x7C00u, 0xFC00u, 0x7C01u, 0x7E00u, 0xFFFFu}) {
    CHECK_SAYS(error_after(file, [&](PackedFile& f) { set_i16(f, "1.weight", 26, static_cast<int>(half)); }),
               "1.weight: ");
  }
  for (const unsigned top : {0x7FF0u, 0xFFF0u, 0x7FF8u}) {
    CHECK_SAYS(error_after(file, [&](PackedFile& f) {
      for (std::size_t i = 0; i < 4; ++i) set_i16(f, "9.line", 4 * 127 + i, i == 3 ? static_cast<int>(top) : 0);
    }), "9.line: ");
  }

  const auto threshold = [&](int value) {
    return error_after(file, [&](PackedFile& f) { set_i16(f, "8.threshold", 64, value); });
  };
  CHECK_EQUAL(threshold(0), "");
  CHECK_EQUAL(threshold(71), "");
  CHECK_SAYS(threshold(72), "8.threshold: threshold 72 in row 64, expected 0 to 71");
  CHECK_SAYS(threshold(-1), "8.threshold: threshold -1 in row 64, expected 0 to 71");
  CHECK_SAYS(threshold(-32768), "8.threshold: threshold -32768");

  CHECK_SAYS(error_after(small_file(), [](PackedFile& f) { set_f32(f, "2.line", 5, 0.5f); }),
             "2.line: b = 0.500000 in row 2, expected 0 for pool mean");
}

void test_every_pad_bit_is_checked() {
  const auto set_bit = [](const PackedFile& file, const std::string& name, int words, int row, int bit) {
    return error_after(file, [&](PackedFile& f) {
      std::uint8_t& byte = f.tensor(name).bytes[static_cast<std::size_t>(row * words * 8 + bit / 8)];
      byte = static_cast<std::uint8_t>(byte | 1u << bit % 8);
    });
  };
  const PackedFile file = full_file();
  for (const int row : {0, 37, 64}) {
    for (int bit = 0; bit < 128; ++bit) {
      const std::string error = set_bit(file, "8.weight", 2, row, bit);
      if (bit < 70) {
        CHECK_EQUAL(error, "");
      } else {
        CHECK_EQUAL(error, "8.weight: pad bits set in row " + std::to_string(row) + ", expected zeros past K = 70");
      }
    }
  }
  for (int bit = 0; bit < 64; ++bit) CHECK_EQUAL(set_bit(file, "10.weight", 1, 4, bit), "");
}

void test_the_manifest_is_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_SAYS(with("\"format\":1", "\"format\":2"), "manifest: format 2, expected");
  CHECK_SAYS(with("\"format\":1", "\"format\":\"1\""), "manifest: format \"1\"");
  CHECK_SAYS(with("\"format\":1", "\"format\":1.0"), "manifest: format 1.0");
  for (const char* key : {"format", "model", "classes", "channels", "normalize", "program", "golden", "training"}) {
    const std::string name = json_string(key) + ":";
    CHECK_SAYS(with(name, "\"x\":"), std::string(key) == "format" ? "manifest: no key format" : "manifest: key \"x\"");
    CHECK_SAYS(with(name, name + "null,\"x\":"), "manifest: ");
  }
  CHECK_SAYS(with(",\"training\":{\"accuracy\":0.5}", ""), "manifest: no key training");
  CHECK_SAYS(with("\"model\":\"made up\"", "\"model\":7"), "manifest: model 7, expected a string");
  CHECK_SAYS(with("{\"accuracy\":0.5}", "[]"), "manifest: training a list, expected an object");
  CHECK_SAYS(with("[\"chair\",\"t\\u00e4sse\"]", "[]"), "manifest: classes with 0 items, expected 1 to 32766");
  CHECK_SAYS(with("[\"chair\",\"t\\u00e4sse\"]", "{}"), "manifest: classes an object, expected a list");
  CHECK_SAYS(with("\"chair\"", "3"), "manifest: class 0: 3, expected a string");
  CHECK_SAYS(with("\"chair\"", "\"c\\u0000\""), "manifest: class 0: \"c?\"");
  CHECK_SAYS(with("\"channels\":3", "\"channels\":2"), "manifest: channels 2, expected an integer from 3 to 256");
  CHECK_SAYS(with("\"channels\":3", "\"channels\":257"), "manifest: channels 257");
  CHECK_SAYS(with("\"channels\":3", "\"channels\":6"), "1.weight: shape [9, 3], expected [9, 6]");
  CHECK_SAYS(with("\"sphere\"", "\"cube\""), "manifest: normalize \"cube\", expected sphere or none");
  CHECK_SAYS(with("9007199254740991", "9007199254740992"), "golden: seed 9007199254740992");
  CHECK_SAYS(with("9007199254740991", "-1"), "golden: seed -1");
  CHECK_EQUAL(with("9007199254740991", "0"), "");
  CHECK_SAYS(with("\"points\":17", "\"points\":0"), "golden: points 0, expected an integer from 1 to 4096");
  CHECK_SAYS(with("\"points\":17", "\"points\":4097"), "golden: points 4097");
  CHECK_EQUAL(with("\"points\":17", "\"points\":4096"), "");
  CHECK_SAYS(with("1e-4", "-1e-4"), "golden: tolerance -1e-4, expected 0 or more");
  CHECK_SAYS(with("1e-4", "1e999"), "golden: tolerance 1e999, expected a number");
  CHECK_SAYS(with("1e-4", "NaN"), "manifest: byte");
  CHECK_SAYS(with("1e-4", "true"), "golden: tolerance true");
  CHECK_SAYS(with("\"tolerance\":1e-4", "\"tolerance\":0,\"x\":0"), "golden: key \"x\"");
  CHECK_SAYS(with(",\"tolerance\":1e-4", ""), "golden: no key tolerance");
}

void test_operations_are_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_SAYS(with("{\"op\":\"sign\"}", "{\"op\":\"cosine\"}"),
             "operation 7: op \"cosine\", expected points, transform");
  CHECK_SAYS(with("{\"op\":\"sign\"}", "{}"), "operation 7: no key op");
  CHECK_SAYS(with("{\"op\":\"sign\"}", "7"), "operation 7: 7, expected an object");
  CHECK_SAYS(with("{\"op\":\"sign\"}", "{\"op\":1}"), "operation 7: op 1, expected a string");
  CHECK_SAYS(with("{\"op\":\"sign\"}", "{\"op\":\"sign\",\"outputs\":70}"), "operation 7, sign: key \"outputs\"");
  CHECK_SAYS(with("\"op\":\"bilinear\",\"outputs\":65", "\"op\":\"bilinear\""),
             "operation 8, bilinear: no key outputs");
  CHECK_SAYS(with("\"outputs\":65", "\"outputs\":0"),
             "operation 8, bilinear: outputs 0, expected an integer from 1 to 32766");
  CHECK_SAYS(with("\"outputs\":65", "\"outputs\":32767"), "operation 8, bilinear: outputs 32767");
  CHECK_SAYS(with("\"outputs\":65", "\"outputs\":64"), "8.weight: shape [65, 2], expected [64, 2] for K = 70");
  CHECK_SAYS(with("\"relu\"", "\"gelu\""), "operation 1, dense: activation \"gelu\", expected none, relu or hardtanh");
  CHECK_SAYS(with("\"mean\"", "\"sum\""), "operation 2, pool: pool \"sum\", expected max or mean");
  CHECK_SAYS(with("\"delta\"", "\"d\""), "operation 9, bilinear_pool: shift \"d\", expected none or delta");
  CHECK_SAYS(with("\"max\",\"shift\"", "\"mean\",\"shift\""),
             "operation 9, bilinear_pool: shift \"delta\", expected none");
  CHECK_SAYS(with("\"size\":3", "\"size\":2"), "operation 3, matrix: size 2, expected the root of 9");
  CHECK_SAYS(with("\"size\":3", "\"size\":182"), "operation 3, matrix: size 182, expected an integer from 1 to 181");
  CHECK_SAYS(with("\"matrix\":0", "\"matrix\":1"), "operation 5, transform: matrix 1, expected one of the 1 kept");
  CHECK_SAYS(with("\"matrix\":0", "\"matrix\":-1"), "operation 5, transform: matrix -1");
  CHECK_SAYS(with("\"matrix\":0", "\"matrix\":16"), "operation 5, transform: matrix 16");
}

// Programs without tensors, to look at their order only.
std::string error_of_program(const std::string& program) {
  PackedFile file;
  file.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", program);
  file.add_f32("golden", {3});
  return error_of(file.bytes());
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

void test_the_order_of_operations_is_checked() {
  const std::string points = "{\"op\":\"points\"}";
  const std::string sign = "{\"op\":\"sign\"}";
  const std::string pool = "{\"op\":\"pool\",\"pool\":\"max\"}";
  const std::string transform = "{\"op\":\"transform\",\"matrix\":0}";
  CHECK_EQUAL(error_of_program(points + "," + pool), "");
  CHECK_SAYS(error_of_program(""), "manifest: program with 0 items, expected 1 to 256");
  CHECK_SAYS(error_of_program(sign), "operation 0, sign: works on nothing, expected point floats or vector floats");
  CHECK_SAYS(error_of_program(points + "," + points),
             "operation 1, points: works on point floats (3), expected nothing");
  CHECK_SAYS(error_of_program(points + "," + sign + "," + sign), "operation 2, sign: works on point bits (3)");
  CHECK_SAYS(error_of_program(points + "," + sign + "," + pool), "operation 2, pool: works on point bits (3)");
  CHECK_SAYS(error_of_program(points + "," + pool + "," + pool), "operation 2, pool: works on vector floats (3)");
  CHECK_SAYS(error_of_program(points + "," + transform),
             "operation 1, transform: matrix 0, expected one of the 0 kept");
  CHECK_SAYS(error_of_program(points + "," + pool + ",{\"op\":\"bilinear\",\"outputs\":3}"),
             "operation 2, bilinear: works on vector floats (3), expected point bits or vector bits");
  CHECK_SAYS(error_of_program(points + "," + sign +
                              ",{\"op\":\"bilinear_float\",\"outputs\":3,\"activation\":\"none\"}"),
             
             "operation 2, bilinear_float: works on point bits (3), expected vector bits");
  CHECK_SAYS(error_of_program(points + ",{\"op\":\"bilinear_pool\",\"outputs\":3,\"pool\":\"max\",\"shift\":\"none\"}"),
             "operation 1, bilinear_pool: works on point floats (3), expected point bits");
  CHECK_SAYS(error_of_program(points + ",{\"op\":\"matrix\",\"size\":2}"),
             "operation 1, matrix: works on point floats (3), expected vector floats");
  CHECK_SAYS(error_of_program(points), "program: ends with point floats (3), expected vector floats (3)");
  CHECK_SAYS(error_of_program(points + "," + pool + "," + sign), "program: ends with vector bits (3)");
  CHECK_SAYS(error_of_program(points + repeated("," + sign, 256)), "program with 257 items, expected 1 to 256");
}

void test_the_program_gives_a_number_a_class() {
  CHECK_SAYS(error_after_manifest(full_file(), "[\"chair\",", "[\"chair\",\"table\","),
             "program: ends with vector floats (2), expected vector floats (3), one a class");
  CHECK_SAYS(error_after_manifest(full_file(), "{\"op\":\"dense\",\"outputs\":2,\"activation\":\"none\"}",
                                  "{\"op\":\"matrix\",\"size\":2}"), "program: ends with nothing");
}

// A program that makes `count` matrices of size 2 and then uses number `use` on points of 4 numbers.
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
  CHECK_SAYS(error_of(file_with_matrices(15, 15, 2).bytes()),
             "operation 61, transform: matrix 15, expected one of the 15");
  CHECK_SAYS(error_of(file_with_matrices(17, 0, 2).bytes()),
             "operation 67, matrix: one matrix more, expected at most 16");
  CHECK_SAYS(error_of(file_with_matrices(1, 0, 4).bytes()),
             "operation 5, transform: matrix of size 4, expected at most the 3 numbers of a point");
}

void test_hostile_names_make_short_clean_messages() {
  const std::string long_name = std::string(100000, 'x') + "\n\x01\x7F";
  const std::string error = error_after(small_file(), [&](PackedFile& f) { f.tensor("3.line").name = long_name; });
  CHECK(!error.empty() && error.size() < 300);
  const std::string control = error_after(small_file(), [](PackedFile& f) { f.tensor("3.line").name = "a\nb"; });
  CHECK(!control.empty() && !contains(control, "\n"));
  // Cut between characters of two bytes, never inside one.
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\xC3\xA4";
  for (const std::string& name : {umlauts, "x" + umlauts}) {
    const std::string said = printable(name);
    CHECK_EQUAL(json_error_of("\"" + said + "\""), "");
    CHECK(said.size() < 80);
  }
}

std::string decoded(const std::string& json) { return Json(json, "text").root().string(); }

void test_json_strings() {
  CHECK_EQUAL(decoded("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\/\b\f\n\r\t");
  CHECK_EQUAL(decoded("\"\\u0041\\u00e4\\u20AC\\uD83D\\ude00\""), "A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK_EQUAL(decoded("\"\\u0000\""), std::string(1, '\0'));
  CHECK_EQUAL(decoded("\"\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\x7F\""),
              "\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80\x7F");
  for (const char* text : {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\ud83d\"", "\"\\ud83dx\"", "\"\\ud83d\\n\"",
                           "\"\\ud83d\\u0041\"", "\"\\u12G4\"", "\"\\u123", "\"\\x\"", "\"\\", "\"", "\"a", "\"\n\"",
                           "\"\x1F\"", "'a'"}) {
    CHECK_SAYS(json_error_of(text), "text: byte ");
  }
  // stray continuation, overlong forms, a surrogate, past U+10FFFF, cut short, no lead byte
  for (const char* text : {"\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xE0\x9F\xBF\"", "\"\xF0\x8F\xBF\xBF\"",
                           "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xFF\"", "\"\xC3\"",
                           "\"\xE2\x82\"", "\"\xE2\x82", "\"\xF0\x9F\x98"}) {
    CHECK_SAYS(json_error_of(text), "expected UTF-8");
  }
}

void test_json_numbers() {
  const auto integer = [](const std::string& text) { return Json(text, "text").root().integer(); };
  const auto number = [](const std::string& text) { return Json(text, "text").root().number(); };
  CHECK(integer("0") == 0);
  CHECK(integer("-12") == -12);
  CHECK(integer("9007199254740992") == 9007199254740992);
  CHECK(!integer("9007199254740993"));
  CHECK(!integer("-9007199254740993"));
  CHECK(!integer("99999999999999999999999"));
  CHECK(!integer("1.0"));
  CHECK(!integer("1e2"));
  CHECK(!integer("\"1\""));
  CHECK(!integer("[1]"));
  CHECK(number("0.1") == 0.1);
  CHECK(number("-1.5E+2") == -150.0);
  CHECK(number("2.2250738585072014e-308") == 2.2250738585072014e-308);
  CHECK(number("12") == 12.0);
  CHECK(!number("1e400"));
  CHECK(!number("true"));
  for (const char* text : {"01", "-", "-a", "+1", ".5", "1.", "1.e2", "1e", "1e+", "0x10", "1 2", "NaN", "Infinity",
                           "--1", "1-1"}) {
    CHECK_SAYS(json_error_of(text), "text: byte ");
  }
}

void test_json_structure() {
  const std::string text = " {\"b\" : [1, [], {}, \"x\"] ,\t\"a\":{\"c\":null,\"d\":true,\"e\":false}}\r\n";
  const Json json(text, "text");
  const auto members = json.root().members();
  if (!CHECK_EQUAL(members.size(), 2u)) return;
  CHECK_EQUAL(members[0].first, "b");
  CHECK_EQUAL(members[1].first, "a");
  const auto items = members[0].second.items();
  if (!CHECK_EQUAL(items.size(), 4u)) return;
  CHECK(items[0].integer() == 1);
  CHECK(items[1].kind() == JsonValue::Kind::array && items[1].size() == 0);
  CHECK(items[2].kind() == JsonValue::Kind::object && items[2].size() == 0);
  CHECK_EQUAL(items[3].string(), "x");
  const auto inner = members[1].second.members();
  if (!CHECK_EQUAL(inner.size(), 3u)) return;
  CHECK(inner[0].second.kind() == JsonValue::Kind::null);
  CHECK(inner[1].second.kind() == JsonValue::Kind::boolean && inner[1].second.boolean());
  CHECK(inner[2].second.kind() == JsonValue::Kind::boolean && !inner[2].second.boolean());
  CHECK(members[1].second.items().empty() && items[0].members().empty() && items[0].string().empty());
  for (const char* broken : {"", " ", "{", "[", "]", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
                             "{a:1}", "{1:1}", "{\"a\":1", "[1", "tru", "truex", "nul", "[trux]", "[falsy]", "[nuLl]",
                             "[]]", "{}{}", "// c\n1",
                             "\xEF\xBB\xBF{}", "\v1"}) {
    CHECK_SAYS(json_error_of(broken), "text: byte ");
  }
  CHECK_EQUAL(json_error_of("[trux]"), "text: byte 1: found 't', expected a value");
  CHECK_EQUAL(json_error_of("[\"ab"), "text: byte 4: found the end, expected the end of the string, '\"'");
  CHECK_EQUAL(json_error_of("[1,]"), "text: byte 3: found ']', expected a value");
  CHECK_EQUAL(json_error_of("{\"a\":1,\"\\u0061\":2}"),
              "text: byte 0: found key \"a\" twice, expected an object without duplicate keys");
}

void test_json_depth() {
  CHECK_EQUAL(json_error_of(std::string(64, '[') + std::string(64, ']')), "");
  CHECK_SAYS(json_error_of(std::string(65, '[') + std::string(65, ']')), "byte 64: found '[', expected at most 64");
  CHECK_SAYS(json_error_of(std::string(10000000, '[')), "byte 64");
  CHECK_SAYS(json_error_of(repeated("{\"a\":", 1000000)), "at most 64");
}

}  // namespace

int main() {
  test_every_field_of_a_valid_file_arrives();
  test_a_pool_by_mean_arrives();
  test_f16_is_widened_exactly();
  test_every_finite_f16_is_widened_exactly();
  test_the_order_of_keys_and_tensors_is_free();
  test_every_truncation_is_refused();
  test_every_changed_byte_gives_a_network_or_an_error();
  test_every_flipped_bit_gives_a_network_or_an_error();
  test_the_length_of_the_header_is_checked();
  test_a_header_that_is_no_json_is_refused();
  test_duplicate_keys_are_refused();
  test_the_metadata_is_one_string();
  test_entries_of_tensors_are_checked();
  test_shapes_that_overflow_are_refused();
  test_tensors_follow_each_other();
  test_tensors_fit_their_operation();
  test_numbers_in_tensors_are_checked();
  test_every_pad_bit_is_checked();
  test_the_manifest_is_checked();
  test_operations_are_checked();
  test_the_order_of_operations_is_checked();
  test_the_program_gives_a_number_a_class();
  test_matrices_are_counted();
  test_hostile_names_make_short_clean_messages();
  test_json_strings();
  test_json_numbers();
  test_json_structure();
  test_json_depth();
  return check_report();
}
