// The container of a packed model: the header, the tensors and their numbers are read, or a FormatError names what was
// found.
#include <cmath>
#include <limits>

#include "format/checksum.h"
#include "format/format_errors.h"

using namespace bipointnet;

namespace {

void test_f16_is_widened_exactly() {
  const Network network = parse(full_file().bytes());
  const std::vector<float>& weight = network.operations[1].weight;
  const std::vector<float> expected = {1.0f, -2.0f, 65504.0f, 0x1p-14f, 0x1p-24f, 1023 * 0x1p-24f,
                                       0.0f, -0.0f, -0x1p-24f};
  if (!CHECK_EQUAL(weight.size(), 27u)) return;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    CHECK_EQUAL(weight[i], expected[i % 9]);
    CHECK_EQUAL(std::signbit(weight[i]), std::signbit(expected[i % 9]));
  }
}

// Every F16 against its definition: (-1)^sign 2^(exponent - 15) (1 + fraction / 1024), or 2^-14 fraction / 1024.
void test_every_finite_f16_is_widened_exactly() {
  PackedFile file = full_file();
  file.remove("tnet.weight");
  std::vector<std::uint16_t> halves;
  for (unsigned half = 0; half < 0x10000; ++half) {
    if ((half >> 10 & 31) != 31) halves.push_back(static_cast<std::uint16_t>(half));
  }
  for (std::size_t start = 0; start < halves.size(); start += 27) {
    std::vector<std::uint16_t> some(27, 0);
    for (std::size_t i = 0; i < 27 && start + i < halves.size(); ++i) some[i] = halves[start + i];
    PackedFile one = file;
    one.add_f16("tnet.weight", {9, 3}, some);
    const Network network = parse(one.bytes());
    for (std::size_t i = 0; i < 27; ++i) {
      const int exponent = some[i] >> 10 & 31;
      const double fraction = (some[i] & 1023) / 1024.0;
      const double size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
      const double expected = some[i] >> 15 ? -size : size;
      const float found = network.operations[1].weight[i];
      if (static_cast<double>(found) != expected || std::signbit(found) != (some[i] >> 15 != 0)) {
        CHECK_EQUAL(static_cast<double>(found), expected);
      }
    }
  }
}

void test_the_length_of_the_header_is_checked() {
  const auto with_length = [](std::uint64_t length, std::size_t size) {
    Bytes bytes;
    append_word(bytes, length);
    bytes.resize(8 + size, ' ');
    return error_of(bytes);
  };
  CHECK_ERROR(error_of(Bytes(7, 0)), "file: cut short after 7 bytes, expected 8");
  CHECK_ERROR(with_length(0, 0), "header: no '{'");
  CHECK_ERROR(with_length(16, 8), "file: cut short after 16 bytes, expected 24");
  CHECK_ERROR(with_length(~std::uint64_t{0}, 8), "length 18446744073709551615, expected at most 16777216");
  if (!kSmallMemory) CHECK_ERROR(with_length((16u << 20) + 8, (16u << 20) + 8), "header: length 16777224");
  CHECK_ERROR(with_length(9, 16), "header: length 9, expected a multiple of 8");
  CHECK_ERROR(with_length(16, 16), "header: no '{'");
}

void test_a_header_that_is_not_json_is_refused() {
  const Bytes body = small_file().body();
  const std::string header = small_file().header();
  CHECK_ERROR(error_of(assembled(header + "x", body)), "header: byte " + std::to_string(header.size()) + ": found 'x'");
  CHECK_ERROR(error_of(assembled(replaced(header, "\"F32\"", "\"F\xFF\""), body)), "found byte 0xff, expected UTF-8");
  CHECK_ERROR(error_of(assembled(replaced(header, "\"F32\"", std::string(70, '[') + std::string(70, ']')), body)),
              "at most 64 levels of nested");
  CHECK_ERROR(error_of(assembled("{\"__metadata__\":" + std::string(1u << 20, '['), {})), "at most 64");
  CHECK_ERROR(error_of(assembled("{}", {})), "header: no key __metadata__");
}

void test_duplicate_keys_are_refused() {
  const PackedFile file = full_file();
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.tensor("tnet.bias").name = "first.bias"; }),
              "key \"first.bias\" twice");
  CHECK_ERROR(error_after_header(file, "\"tnet.bias\"", "\"first.\\u0062ias\""), "key \"first.bias\" twice");
  CHECK_ERROR(error_after_header(file, "\"dtype\":", "\"shape\":[1],\"dtype\":"), "header: byte");
  CHECK_ERROR(error_after_header(file, "\"dtype\":", "\"shape\":[1],\"dtype\":"), "key \"shape\" twice");
  CHECK_ERROR(error_after_header(file, "{\"bipointnet\":", "{\"bipointnet\":\"\",\"bipointnet\":"),
              "key \"bipointnet\" twice");
  CHECK_ERROR(error_after_manifest(file, "\"format\":2,", "\"format\":2,\"format\":2,"), "manifest: byte 0");
  CHECK_ERROR(error_after_manifest(file, "\"accuracy\"", "\"x\":[{\"y\":1,\"y\":2}],\"accuracy\""), "key \"y\" twice");
  CHECK_ERROR(error_after_manifest(file, "\"op\":\"sign\"", "\"op\":\"sign\",\"op\":\"sign\""), "key \"op\" twice");
}

void test_the_metadata_is_one_string() {
  const PackedFile file = small_file();
  const std::string metadata = "\"__metadata__\":{\"bipointnet\":" + json_string(file.manifest) + "}";
  const auto with = [&](const std::string& text) { return error_after_header(file, metadata, text); };
  CHECK_ERROR(with("\"__metadata__\":{}"), "__metadata__: no key bipointnet");
  CHECK_ERROR(with("\"__metadata__\":{\"bipointnet\":1}"), "__metadata__: bipointnet 1, expected a string");
  CHECK_ERROR(with("\"__metadata__\":[]"), "__metadata__: a list, expected an object");
  CHECK_ERROR(with("\"__metadata__\":{\"bipointnet\":\"{}\",\"format\":\"pt\"}"), "__metadata__: key \"format\"");
  CHECK_ERROR(with("\"__metadata__\":{\"bipointnet\":\"\"}"), "manifest: byte 0: found the end");
  CHECK_ERROR(with("\"__metadata__\":{\"bipointnet\":\"[]\"}"), "manifest: a list, expected an object");
  CHECK_ERROR(with("\"__metadata__\":{\"bipointnet\":\"{}\"}"), "manifest: no key format");
}

void test_entries_of_tensors_are_checked() {
  const PackedFile file = full_file();
  CHECK_ERROR(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":\"BF16\""),
              "tnet.weight: dtype \"BF16\", expected U64");
  CHECK_ERROR(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":16"), "tnet.weight: dtype 16");
  CHECK_ERROR(error_after_header(file, "\"dtype\":\"F16\",", ""), "tnet.weight: no key dtype");
  CHECK_ERROR(error_after_header(file, "\"dtype\":\"F16\"", "\"dtype\":\"F16\",\"x\":0"), "tnet.weight: key \"x\"");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,3,1]"), "tnet.weight: shape with 3 items");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[]"), "tnet.weight: shape with 0 items");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":27"), "tnet.weight: shape 27, expected a list");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,-3]"), "tnet.weight: shape with -3");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,3.0]"), "tnet.weight: shape with 3.0");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,\"3\"]"), "tnet.weight: shape with \"3\"");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,2]"), "tnet.weight: 54 bytes, expected 36");
  CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", "\"shape\":[9,4]"), "tnet.weight: 54 bytes, expected more");
  CHECK_ERROR(error_after_header(file, "[0,54]", "[0,54,54]"), "tnet.weight: data_offsets with 3 items");
  CHECK_ERROR(error_after_header(file, "[0,54]", "[54,0]"), "tnet.weight: data_offsets [54, 0]");
  CHECK_ERROR(error_after_header(file, "[0,54]", "[0,9007199254740992]"),
              "tnet.weight: 9007199254740992 bytes, expected 54 for shape [9, 3] of F16");
  CHECK_ERROR(error_after_header(file, "[0,54]", "[0,9007199254740993]"),
              "tnet.weight: data_offsets with 9007199254740993");
}

void test_shapes_that_overflow_are_refused() {
  const PackedFile file = full_file();
  // 2^53 * 2^11 = 2^64 = 0, 2^32 * 2^32 = 0, 3 * 6148914691236517206 = 2^64 + 2: the last is not an exact JSON integer
  for (const char* shape : {"[9007199254740992,2048]", "[4294967296,4294967296]", "[3,6148914691236517206]",
                            "[9007199254740992,9007199254740992]", "[0,9007199254740992]", "[9007199254740992,0]",
                            "[32766,18446744073709551615]"}) {
    CHECK_ERROR(error_after_header(file, "\"shape\":[9,3]", std::string("\"shape\":") + shape), "tnet.weight: ");
  }
}

void test_tensors_follow_each_other() {
  // pooled.weight [0,32], pooled.line [32,64], logits.weight [64,80], logits.line [80,96], golden [96,104]
  const PackedFile file = small_file();
  const auto moved = [&](const std::string& from, const std::string& to) { return error_after_header(file, from, to); };
  CHECK_ERROR(moved("[32,64]", "[0,32]"), "overlap, begins at byte 0, expected byte 32");
  CHECK_ERROR(moved("[32,64]", "[16,48]"),
              "pooled.line: overlap, begins at byte 16, expected byte 32, where pooled.weight ends");
  const Bytes body = file.body();
  CHECK_ERROR(error_of(assembled(replaced(replaced(file.header(), "[4,2]", "[3,2]"), "[32,64]", "[32,56]"), body)),
              "logits.weight: gap, begins at byte 64, expected byte 56, where pooled.line ends");
  CHECK_ERROR(error_of(assembled(replaced(replaced(file.header(), "[4,1]", "[3,1]"), "[0,32]", "[8,32]"), body)),
              "pooled.weight: gap, begins at byte 8, expected byte 0, where the header ends");
  Bytes longer = file.bytes();
  longer.push_back(0);
  CHECK_ERROR(error_of(longer),
              "file: more bytes than its header describes, expected " + std::to_string(longer.size() - 1));
  PackedFile no_tensors = file;
  no_tensors.tensors.clear();
  const Bytes bytes = no_tensors.bytes();
  CHECK_ERROR(error_of(bytes.data(), bytes.size() - 5), "file: cut short after " + std::to_string(bytes.size() - 5) +
                                                            " bytes, expected " + std::to_string(bytes.size()));
  CHECK_ERROR(error_of(assembled(replaced(no_tensors.header(), "[0,8]", "[8,0]"), Bytes(8, 0))),
              "checksum: data_offsets [8, 0], expected an ascending range");
}

void test_the_checksum_is_the_crc_of_all_bytes_before_it() {
  const std::string digits = "123456789";
  CHECK_EQUAL(crc32(reinterpret_cast<const std::uint8_t*>(digits.data()), digits.size()), 0xCBF43926u);
  CHECK_EQUAL(crc32(nullptr, 0), 0u);
  Bytes bytes;
  for (unsigned i = 0; i < 100; ++i) {
    CHECK_EQUAL(crc32(bytes.data(), bytes.size()), crc32_by_definition(bytes.data(), bytes.size()));
    bytes.push_back(static_cast<std::uint8_t>(i * i * 7 + 13));
  }
}

void test_the_checksum_is_the_last_tensor() {
  const PackedFile file = small_file();
  Bytes bytes = file.bytes();
  bytes[bytes.size() - kChecksumBytes - 1] ^= 1;
  CHECK_ERROR(error_of(bytes), "checksum: 0x");
  CHECK_ERROR(error_of(bytes), " over the bytes of the file, expected 0x");
  bytes = file.bytes();
  bytes.back() ^= 1;
  CHECK_ERROR(error_of(bytes), ", expected 0x1000000");
  const std::string entry = ",\"checksum\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[104,112]}";
  const auto with = [&](const std::string& text) { return error_after_header(file, entry, text); };
  CHECK_ERROR(with(""), "checksum: missing tensor, expected one of shape [1]");
  CHECK_ERROR(with(",\"checksum\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[104,112]}"),
              "checksum: dtype F64, expected U64");
  CHECK_ERROR(with(",\"checksum\":{\"dtype\":\"U64\",\"shape\":[1,1],\"data_offsets\":[104,112]}"),
              "checksum: shape [1, 1], expected [1]");
  CHECK_ERROR(with(entry + ",\"z\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[112,120]}"),
              "checksum: a tensor before the end of the file, expected the last tensor");
}

// The size is checked before the checksum, and the checksum before the manifest.
void test_the_order_of_checks() {
  PackedFile file = small_file();
  file.manifest = "[]";
  Bytes bytes = file.bytes();
  CHECK_ERROR(error_of(bytes), "manifest: a list");
  bytes[bytes.size() - 20] ^= 1;
  CHECK_ERROR(error_of(bytes), "checksum: 0x");
  bytes.pop_back();
  CHECK_ERROR(error_of(bytes), "file: cut short");
  CHECK_EQUAL(header_size(bytes.data(), 8) + 112,
              file_size(bytes.data(), static_cast<std::size_t>(header_size(bytes.data(), 8))));
  bytes[8] = '[';
  CHECK_ERROR(error_of(bytes), "header: no '{'");
}

void test_tensors_fit_their_operation() {
  const PackedFile file = full_file();
  const auto tensor = [&](const std::string& name, const std::function<void(PackedTensor&)>& change) {
    return error_after(file, [&](PackedFile& f) { change(f.tensor(name)); });
  };
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.remove("hidden.threshold"); }),
              "hidden.threshold: missing tensor, expected one of shape [65]");
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.remove("hidden.weight"); }),
              "hidden.weight: missing tensor, expected one of shape [65, 2] for K = 70");
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.remove("golden"); }), "golden: missing tensor");
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.add_f32("hidden.line", {65, 2}); }),
              "hidden.line: tensor that no operation uses");
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.add_f32("01.bias", {9}); }),
              "01.bias: tensor that no operation uses");
  CHECK_ERROR(error_after(file, [](PackedFile& f) { f.add("nothing", "F32", {0}, {}); }), "nothing: tensor that no");
  CHECK_ERROR(tensor("pooled.line", [](PackedTensor& t) { t.shape = "[2,64]"; }),
              "pooled.line: shape [2, 64], expected [64, 2]");
  CHECK_ERROR(tensor("pooled.line", [](PackedTensor& t) { t.shape = "[128]"; }),
              "pooled.line: shape [128], expected [64, 2]");
  CHECK_ERROR(error_after(file,
                          [](PackedFile& f) {
                            f.remove("hidden.weight");
                            f.add_bits("hidden.weight", 65, 129);
                          }),
              "hidden.weight: shape [65, 3], expected [65, 2] for K = 70");
  CHECK_ERROR(tensor("first.bias", [](PackedTensor& t) { t.shape = "[35]", t.dtype = "F64"; }),
              "first.bias: dtype F64, expected F32");
  CHECK_ERROR(tensor("hidden.weight", [](PackedTensor& t) { t.dtype = "F64"; }),
              "hidden.weight: dtype F64, expected U64");
  CHECK_ERROR(tensor("hidden.threshold", [](PackedTensor& t) { t.dtype = "F16"; }),
              "hidden.threshold: dtype F16, expected I16");
  CHECK_ERROR(tensor("tnet.weight", [](PackedTensor& t) { t.dtype = "I16"; }),
              "tnet.weight: dtype I16, expected F32 or F16");
  CHECK_ERROR(tensor("pooled.line", [](PackedTensor& t) { t.dtype = "U64"; }),
              "pooled.line: dtype U64, expected F32 or F64");
  CHECK_ERROR(error_after(file,
                          [](PackedFile& f) {
                            f.remove("floats.line");
                            f.add_f64("floats.line", {4, 2});
                          }),
              "floats.line: dtype F64, expected F32");
  CHECK_ERROR(error_after(file,
                          [](PackedFile& f) {
                            f.remove("golden");
                            f.add_f64("golden", {2});
                          }),
              "golden: dtype F64, expected F32");
  CHECK_ERROR(error_after(file,
                          [](PackedFile& f) {
                            f.remove("golden");
                            f.add_f32("golden", {3});
                          }),
              "golden: shape [3], expected [2]");
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

void test_numbers_in_tensors_are_checked() {
  const PackedFile file = full_file();
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name :
       {"tnet.bias", "first.weight", "first.bias", "floats.line", "logits.weight", "logits.bias", "golden"}) {
    for (const float value : {inf, -inf, nan}) {
      const std::string error = error_after(file, [&](PackedFile& f) { set_f32(f, name, 1, value); });
      CHECK_ERROR(error, std::string(name) + ": ");
      CHECK_ERROR(error, "at index 1, expected finite numbers");
    }
  }
  for (const unsigned half : {0x7C00u, 0xFC00u, 0x7C01u, 0x7E00u, 0xFFFFu}) {
    CHECK_ERROR(error_after(file, [&](PackedFile& f) { set_i16(f, "tnet.weight", 26, static_cast<int>(half)); }),
                "tnet.weight: ");
  }
  for (const unsigned top : {0x7FF0u, 0xFFF0u, 0x7FF8u}) {
    CHECK_ERROR(error_after(file,
                            [&](PackedFile& f) {
                              for (std::size_t i = 0; i < 4; ++i)
                                set_i16(f, "pooled.line", 4 * 127 + i, i == 3 ? static_cast<int>(top) : 0);
                            }),
                "pooled.line: ");
  }

  const auto threshold = [&](int value) {
    return error_after(file, [&](PackedFile& f) { set_i16(f, "hidden.threshold", 64, value); });
  };
  CHECK_EQUAL(threshold(0), "");
  CHECK_EQUAL(threshold(71), "");
  CHECK_ERROR(threshold(72), "hidden.threshold: threshold 72 in row 64, expected 0 to 71");
  CHECK_ERROR(threshold(-1), "hidden.threshold: threshold -1 in row 64, expected 0 to 71");
  CHECK_ERROR(threshold(-32768), "hidden.threshold: threshold -32768");

  CHECK_ERROR(error_after(small_file(), [](PackedFile& f) { set_f32(f, "pooled.line", 5, 0.5f); }),
              "pooled.line: b = 0.5 in row 2, expected 0 for pool mean");
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
      const std::string error = set_bit(file, "hidden.weight", 2, row, bit);
      if (bit < 70) {
        CHECK_EQUAL(error, "");
      } else {
        CHECK_EQUAL(error,
                    "hidden.weight: pad bits set in row " + std::to_string(row) + ", expected zeros past K = 70");
      }
    }
  }
  for (int bit = 0; bit < 64; ++bit) CHECK_EQUAL(set_bit(file, "head.weight", 1, 4, bit), "");
}

void test_hostile_names_make_short_clean_messages() {
  const std::string long_name = std::string(100000, 'x') + "\n\x01\x7F";
  const std::string error = error_after(small_file(), [&](PackedFile& f) { f.tensor("logits.line").name = long_name; });
  CHECK(!error.empty() && error.size() < 300);
  const std::string control = error_after(small_file(), [](PackedFile& f) { f.tensor("logits.line").name = "a\nb"; });
  CHECK(!control.empty() && !contains(control, "\n"));
  // Control characters of one and of two bytes; U+00A0 is none. Bytes that are not UTF-8.
  for (unsigned code = 0; code < 0x100; ++code) {
    std::string character;
    append_utf8(character, code);
    CHECK_EQUAL(printable(character), code < 0x20 || (code >= 0x7F && code < 0xA0) ? "?" : character);
    if (code >= 0x80) CHECK_EQUAL(printable(std::string(1, static_cast<char>(code))), "?");
  }
  // Truncated between characters of two bytes, never inside one.
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\xC3\xA4";
  for (const std::string& name : {umlauts, "x" + umlauts}) {
    const std::string shown = printable(name);
    CHECK_EQUAL(json_error_of("\"" + shown + "\""), "");
    CHECK(shown.size() < 80);
  }
}

}  // namespace

int main() {
  test_f16_is_widened_exactly();
  test_every_finite_f16_is_widened_exactly();
  test_the_length_of_the_header_is_checked();
  test_a_header_that_is_not_json_is_refused();
  test_duplicate_keys_are_refused();
  test_the_metadata_is_one_string();
  test_entries_of_tensors_are_checked();
  test_shapes_that_overflow_are_refused();
  test_tensors_follow_each_other();
  test_the_checksum_is_the_crc_of_all_bytes_before_it();
  test_the_checksum_is_the_last_tensor();
  test_the_order_of_checks();
  test_tensors_fit_their_operation();
  test_numbers_in_tensors_are_checked();
  test_every_pad_bit_is_checked();
  test_hostile_names_make_short_clean_messages();
  return check_report();
}
