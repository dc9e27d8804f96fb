// Any bytes give a network or a FormatError that names what was found (docs/format.md). This file tests whole files;
// test_manifest.cpp, test_program.cpp and test_operations.cpp test the manifest, test_tensors.cpp the container,
// test_json.cpp the JSON reader.
#include "format/format_errors.h"

using namespace bipointnet;

namespace {

const std::vector<PackedFile>& all_files() {
  static const std::vector<PackedFile> files = {small_file(), full_file(), segments_file(), scaled_file(),
                                                groups_file()};
  return files;
}

const Operation& maker(const Network& network, const std::string& name) {
  for (const Operation& operation : network.operations) {
    for (const int result : operation.out) {
      if (network.values[size(result)].name == name) return operation;
    }
  }
  throw std::logic_error("no value " + name);
}

const Value& value(const Network& network, const std::string& name) {
  for (const Value& value : network.values) {
    if (value.name == name) return value;
  }
  throw std::logic_error("no value " + name);
}

void check_value(const Network& network, const std::string& name, Kind kind, int domain, int channels) {
  const Value& found = value(network, name);
  CHECK(found.kind == kind);
  CHECK_EQUAL(name + " " + std::to_string(found.domain), name + " " + std::to_string(domain));
  CHECK_EQUAL(name + " " + std::to_string(found.channels), name + " " + std::to_string(channels));
}

template <class Float>
void check_numbers(const std::vector<Float>& values, int count) {
  if (!CHECK_EQUAL(values.size(), static_cast<std::size_t>(count))) return;
  for (int i = 0; i < count; ++i) {
    CHECK_EQUAL(values[static_cast<std::size_t>(i)], static_cast<Float>(PackedFile::number(i)));
  }
}

void check_bits(const Operation& operation) {
  const int columns = operation.inputs / operation.groups, words = (columns + 63) / 64;
  if (!CHECK_EQUAL(operation.bits.size(), static_cast<std::size_t>(operation.outputs * words))) return;
  for (int row = 0; row < operation.outputs; ++row) {
    for (int k = 0; k < 64 * words; ++k) {
      const bool bit = operation.bits[static_cast<std::size_t>(row * words + k / 64)] >> k % 64 & 1;
      const bool written = k < columns && (PackedFile::pattern(row, k / 64) >> k % 64 & 1);
      CHECK_EQUAL(bit, written);
    }
  }
}

void check_thresholds(const Operation& operation) {
  if (!CHECK_EQUAL(operation.threshold.size(), static_cast<std::size_t>(operation.outputs))) return;
  for (int row = 0; row < operation.outputs; ++row) {
    CHECK_EQUAL(operation.threshold[static_cast<std::size_t>(row)], row % (operation.inputs + 2));
  }
}

void test_every_field_of_a_pointnet_arrives() {
  const PackedFile file = full_file();
  const Network network = parse(file.bytes());
  CHECK_EQUAL(network.manifest, file.manifest);
  CHECK(network.task == Task::classify && !network.per_point());
  CHECK(network.classes == (std::vector<std::string>{"chair", "t\xC3\xA4sse"}));
  CHECK_EQUAL(network.channels, 3);
  CHECK(network.normalize == Normalize::mean);
  CHECK_EQUAL(network.golden_seed, 9007199254740991u);
  CHECK_EQUAL(network.golden_points, 17);
  CHECK_EQUAL(network.golden_tolerance, 1e-4);
  check_numbers(network.golden, 2);
  CHECK_EQUAL(network.operations.size(), 11u);
  CHECK_EQUAL(network.domains.size(), 2u);
  CHECK(network.domains[0].type == Domain::Type::cloud && network.domains[0].parent == -1);
  CHECK(network.domains[1].type == Domain::Type::set && network.domains[1].parent == 0);

  check_value(network, "points", Kind::floats, 1, 3);
  check_value(network, "tnet", Kind::floats, 1, 9);
  check_value(network, "matrix", Kind::floats, 0, 9);
  check_value(network, "aligned", Kind::floats, 1, 3);
  check_value(network, "signs", Kind::bits, 1, 70);
  check_value(network, "hidden", Kind::bits, 1, 65);
  check_value(network, "pooled", Kind::bits, 0, 64);
  check_value(network, "logits", Kind::floats, 0, 2);
  CHECK(maker(network, "tnet").activation == Activation::relu);
  CHECK(maker(network, "floats").activation == Activation::hardtanh);
  CHECK(maker(network, "logits").activation == Activation::none);
  CHECK(maker(network, "matrix").pool == Pool::mean);
  const Operation& pooled = maker(network, "pooled");
  CHECK(pooled.pool == Pool::max && pooled.shifted && pooled.over == Over::points && pooled.threshold.empty());
  const Operation& transform = maker(network, "aligned");
  CHECK(transform.in == (std::vector<int>{0, 2}) && transform.out == (std::vector<int>{3}));
  CHECK(transform.inputs == 3 && transform.outputs == 3);
  check_numbers(maker(network, "tnet").bias, 9);
  check_numbers(maker(network, "first").weight, 210);
  check_numbers(maker(network, "first").bias, 70);
  check_numbers(pooled.line, 128);
  check_numbers(maker(network, "floats").line, 8);
  check_numbers(maker(network, "logits").weight, 8);
  check_numbers(maker(network, "logits").bias, 2);
  for (const char* name : {"hidden", "pooled", "head", "floats"}) check_bits(maker(network, name));
  for (const char* name : {"hidden", "head"}) check_thresholds(maker(network, name));
}

void test_a_pool_by_mean_arrives() {
  const Network network = parse(small_file().bytes());
  CHECK(network.normalize == Normalize::none);
  const Operation& pooled = maker(network, "pooled");
  CHECK(pooled.pool == Pool::mean && !pooled.shifted);
  CHECK(pooled.line == (std::vector<double>{0, 0, 1, 0, 2, 0, 3, 0}));
}

void test_thresholds_scales_and_blocks_arrive() {
  const Network network = parse(scaled_file().bytes());
  CHECK_EQUAL(maker(network, "signs").at, 0.25f);
  CHECK_EQUAL(maker(network, "head").at, -0.5f);
  CHECK_EQUAL(maker(network, "first").groups, 3);
  check_value(network, "scale", Kind::floats, 1, 3);
  check_value(network, "second", Kind::floats, 1, 72);
  check_value(network, "size", Kind::floats, 0, 1);
  CHECK_EQUAL(maker(network, "second").in.size(), 2u);
  CHECK(maker(network, "pooled").shifted);
  for (const char* name : {"first", "second", "logits"}) check_bits(maker(network, name));
}

void test_categories_and_a_second_result_arrive() {
  const Network network = parse(segments_file().bytes());
  CHECK(network.task == Task::part && network.per_point());
  CHECK(network.categories == (std::vector<std::string>{"mug", "l\xC3\xA4mp", "x"}));
  CHECK(network.parts == (std::vector<std::vector<int>>{{0, 1}, {0, 1}, {0}}));
  CHECK_EQUAL(network.golden.size(), 34u);
  check_value(network, "category", Kind::bits, 0, 3);
  check_value(network, "pooled", Kind::bits, 0, 70);
  check_value(network, "local", Kind::bits, 1, 70);
  check_value(network, "global", Kind::bits, 0, 73);
  check_value(network, "everywhere", Kind::bits, 1, 73);
  check_value(network, "joined", Kind::bits, 1, 151);
  const Operation& pooled = maker(network, "local");
  CHECK(&pooled == &maker(network, "pooled") && pooled.out.size() == 2 && pooled.over == Over::distinct);
  check_thresholds(pooled);
}

void test_sets_and_groups_arrive() {
  const Network network = parse(groups_file().bytes());
  if (!CHECK_EQUAL(network.domains.size(), 5u)) return;
  const Domain &chosen = network.domains[2], &near = network.domains[3], &inside = network.domains[4];
  CHECK(chosen.type == Domain::Type::set && chosen.parent == 0 && chosen.source == 1 && chosen.capped);
  CHECK(chosen.count.factor == 0.5 && chosen.count.least == 1 && chosen.count.most == 8 && !chosen.count.fixed());
  CHECK(near.type == Domain::Type::groups && near.parent == 2 && near.source == 1 && near.count.fixed());
  CHECK(inside.type == Domain::Type::groups && inside.parent == 2 && inside.source == 1 && !inside.count.fixed());
  check_value(network, "chosen", Kind::indices, 2, 1);
  check_value(network, "centers", Kind::floats, 2, 3);
  check_value(network, "near", Kind::indices, 3, 1);
  check_value(network, "offsets", Kind::floats, 3, 3);
  check_value(network, "matrix", Kind::floats, 2, 16);
  check_value(network, "mixed", Kind::floats, 3, 4);
  check_value(network, "products", Kind::floats, 2, 12);
  check_value(network, "members", Kind::floats, 4, 3);
  check_value(network, "number", Kind::floats, 2, 1);
  check_value(network, "middle", Kind::floats, 2, 3);
  check_value(network, "crowd", Kind::floats, 2, 1);
  check_value(network, "heavy", Kind::floats, 2, 3);
  check_value(network, "wide", Kind::floats, 2, 15);
  check_value(network, "narrow", Kind::floats, 2, 12);
  check_value(network, "back", Kind::floats, 1, 12);
  CHECK_EQUAL(maker(network, "near").dilation, 2);
  CHECK(maker(network, "chosen").order == Order::coordinates && maker(network, "inside").order == Order::index);
  CHECK(maker(network, "matrix").order == Order::channels);
  CHECK_EQUAL(maker(network, "inside").radius, 0.5);
  CHECK_EQUAL(maker(network, "crowd").bandwidth, 0.125);
  CHECK(maker(network, "weights").function == Function::leaky_relu && maker(network, "weights").slope == 0.1f);
  CHECK(maker(network, "means").pool == Pool::sum && maker(network, "means").over == Over::neighbors);
  CHECK(maker(network, "back").guard == Guard::add && maker(network, "back").epsilon == 0x1p-10f);
  CHECK(maker(network, "narrow").from == 2 && maker(network, "narrow").to == 14);
  CHECK_EQUAL(maker(network, "logits").groups, 2);
  check_numbers(maker(network, "logits").weight, 12);
  check_numbers(maker(network, "scaled").line, 30);
}

void test_the_order_of_keys_and_tensors_is_free() {
  PackedFile file = full_file();
  std::reverse(file.tensors.begin(), file.tensors.end());
  file.manifest = replaced(
      file.manifest, operation("dense", {"points"}, {"tnet"}, "\"outputs\":9,\"activation\":\"relu\",\"groups\":1"),
      " { \"groups\" : 1, \"activation\" : \"relu\" , \"outputs\" : 9 ,\n\t\"out\":[ \"tnet\" "
      "],\"in\":[\"poi\\u006ets\"],"
      "\"op\" : \"dense\" } ");
  CHECK_EQUAL(error_of(file.bytes()), "");
}

void test_every_truncation_is_refused() {
  for (const PackedFile& file : all_files()) {
    const Bytes bytes = file.bytes();
    for (std::size_t size = 0; size < bytes.size(); size += kSmallMemory ? 5 : 1) CHECK(!error_of(bytes.data(), size).empty());
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
  for (std::size_t at = 0; at + kChecksumBytes < file.size(); at += kSmallMemory ? 5 : 1) {
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

void test_every_flipped_bit_is_refused() {
  for (const PackedFile& file : {segments_file(), groups_file()}) check_every_flipped_bit(file);
}

}  // namespace

int main() {
  test_every_field_of_a_pointnet_arrives();
  test_a_pool_by_mean_arrives();
  test_thresholds_scales_and_blocks_arrive();
  test_categories_and_a_second_result_arrive();
  test_sets_and_groups_arrive();
  test_the_order_of_keys_and_tensors_is_free();
  test_every_truncation_is_refused();
  test_every_changed_byte_gives_a_network_or_an_error();
  test_every_flipped_bit_is_refused();
  return check_report();
}
