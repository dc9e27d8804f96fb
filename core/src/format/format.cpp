// The reader of a packed model: the manifest and the tensors become a Network. docs/format.md is the contract. Every
// rule is checked here, in program.cpp or in tensors.cpp, before memory that depends on it is allocated.
#include "format/cost.h"
#include "format/fields.h"
#include "format/json.h"
#include "format/network.h"
#include "format/operations.h"
#include "format/program.h"
#include "format/tensors.h"

namespace bipointnet {
namespace {

constexpr std::int64_t kMaxChannels = 256;
constexpr std::int64_t kMaxGoldenPoints = 4096;
constexpr std::int64_t kMaxPoints = 0xffffffff;

// C strings end at the first NUL, so the C API would truncate a name that contains one.
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

// For each category, the classes that its points can have.
std::vector<std::vector<int>> read_parts(const Fields& manifest, std::size_t categories, std::size_t classes) {
  const auto count = static_cast<std::int64_t>(categories);
  std::vector<std::vector<int>> parts;
  for (const JsonValue& item : manifest.list("parts", count, count)) {
    const std::string what = manifest.what + ": parts of category " + decimal(parts.size());
    const std::vector<JsonValue> numbers = item.items();
    if (numbers.empty()) fail(what, item.describe(), "a list of at least one class");
    std::int64_t least = 0;
    parts.emplace_back();
    for (const JsonValue& number : numbers) {
      const std::int64_t part = number.integer().value_or(-1);
      if (part < least || part >= static_cast<std::int64_t>(classes)) {
        fail(what, number.describe(), "ascending class numbers below " + decimal(classes));
      }
      parts.back().push_back(static_cast<int>(part));
      least = part + 1;
    }
  }
  return parts;
}

Task read_task(const Fields& manifest) {
  const Task task =
      manifest.choice<Task>("task", {{"classify", Task::classify}, {"part", Task::part}, {"semantic", Task::semantic}});
  for (const char* key : {"categories", "parts"}) {
    if (manifest.has(key) && task != Task::part) {
      fail(manifest.what, std::string(key) + " with task " + name_of(task), "task part");
    }
  }
  if (manifest.has("parts") && !manifest.has("categories")) fail(manifest.what, "parts without categories", "both");
  return task;
}

void read_golden(const Fields& manifest, Tensors& tensors, Network& network) {
  const Fields golden(manifest.at("golden"), manifest.what + ": golden");
  golden.expect_keys({"seed", "points", "tolerance"});
  network.golden_seed = static_cast<std::uint64_t>(golden.integer("seed", 0, kMaxInteger - 1));
  network.golden_points = static_cast<int>(golden.integer("points", 1, kMaxGoldenPoints));
  network.golden_tolerance = golden.number("tolerance");
  if (network.golden_tolerance < 0) golden.fail_at("tolerance", "0 or more");
  Shape shape = {network.classes.size()};
  if (network.per_point()) shape.insert(shape.begin(), static_cast<std::uint64_t>(network.golden_points));
  network.golden = tensors.floats<float>("golden", {Dtype::f32}, shape);
}

void read_manifest(const JsonValue& root, Tensors& tensors, Network& network) {
  const Fields manifest(root, "manifest");
  manifest.integer("format", 2, 2);
  std::vector<std::string> keys = {"format",    "model",   "task",   "classes", "channels",
                                   "normalize", "program", "golden", "training"};
  for (const char* key : {"categories", "parts", "max_points", "blocks"}) {
    if (manifest.has(key)) keys.push_back(key);
  }
  manifest.expect_keys(keys);
  network.task = read_task(manifest);
  manifest.string("model");
  if (manifest.at("training").kind() != JsonValue::Kind::object) manifest.fail_at("training", "an object");
  network.classes = read_names(manifest, "classes", "class");
  if (manifest.has("categories")) network.categories = read_names(manifest, "categories", "category");
  if (manifest.has("parts")) network.parts = read_parts(manifest, network.categories.size(), network.classes.size());
  network.channels = static_cast<int>(manifest.integer("channels", 3, kMaxChannels));
  if (manifest.has("max_points")) {
    if (network.per_point()) fail(manifest.what, std::string("max_points with task ") + name_of(network.task), "task classify");
    network.max_points = static_cast<std::size_t>(manifest.integer("max_points", 1, kMaxPoints));
  }
  if (manifest.has("blocks")) {
    if (network.task != Task::semantic) {
      fail(manifest.what, std::string("blocks with task ") + name_of(network.task), "task semantic");
    }
    network.blocks = read_blocks(manifest.at("blocks"), manifest.what + ": blocks", network.channels);
  }
  network.normalize = manifest.choice<Normalize>(
      "normalize", {{"sphere", Normalize::mean}, {"box", Normalize::box}, {"none", Normalize::none}});
  read_program(manifest, tensors, network);
  read_golden(manifest, tensors, network);
  check_golden_cost(network);
}

}  // namespace

Network parse(const std::uint8_t* bytes, std::size_t size) {
  Network network;
  Tensors tensors(bytes, size, network.manifest);
  tensors.check_file(bytes, size);
  const Json manifest(network.manifest, "manifest");
  read_manifest(manifest.root(), tensors, network);
  tensors.expect_all_used();
  return network;
}

std::uint64_t file_size(const std::uint8_t* bytes, std::size_t size) {
  std::string manifest;
  return Tensors(bytes, size, manifest).file_size();
}

}  // namespace bipointnet
