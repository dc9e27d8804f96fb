// Samples and blocks of clouds of any size. tests/tool compares them with Python's, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bipointnet.h"
#include "check.h"
#include "engine/cloud.h"
#include "packed_writer.h"
#include "scan/blocks.h"
#include "scan/sample.h"
#include "scan/shuffle.h"

using namespace bipointnet;

namespace {

std::vector<float> random_points(std::size_t count, float width, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> xyz(3 * count);
  for (float& number : xyz) number = width * static_cast<float>(random()) / 4294967296.0F;
  return xyz;
}

void check_shuffle() {
  // The first outputs of SplitMix64 with seed 0.
  CHECK_EQUAL(scan::rank_of(0), 16294208416658607535u);
  CHECK_EQUAL(scan::rank_of(1), 7960286522194355700u);
  CHECK_EQUAL(scan::rank_of(2), 487617019471545679u);
  for (const std::size_t count : {1u, 2u, 1000u}) {
    std::vector<std::uint32_t> all = scan::shuffled(count), given(count);
    CHECK(std::is_sorted(all.begin(), all.end(), [](auto a, auto b) { return scan::rank_of(a) < scan::rank_of(b); }));
    std::iota(given.begin(), given.end(), 0u);
    scan::shuffle(given);
    CHECK(given == all);
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < count; ++i) CHECK_EQUAL(all[i], i);
  }
}

// Two triangles in the planes z = 0 and z = 1, of areas 0.5 and 1.5, and one without an area.
void check_surface() {
  const std::vector<float> xyz = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 3, 0, 1, 0, 1, 1};
  const std::vector<std::int64_t> faces = {0, 1, 2, 3, 4, 5, 0, 0, 1};
  const std::size_t count = 20000;
  const std::vector<float> points = scan::sample_surface(xyz.data(), faces, count);
  double low = 0, x = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float* point = &points[3 * i];
    CHECK(point[2] == 0 || point[2] == 1);
    const float width = point[2] == 0 ? 1.0F : 3.0F;
    CHECK(point[0] >= 0 && point[1] >= 0 && point[0] / width + point[1] <= 1.00001F);
    low += point[2] == 0;
    x += point[2] == 0 ? 0 : double{point[0]};
  }
  CHECK(std::abs(low / count - 0.25) < 0.02);               // by area
  CHECK(std::abs(x / (static_cast<double>(count) - low) - 1.0) < 0.02);  // uniform: the mean of x is a third of 3
  const std::vector<float> fewer = scan::sample_surface(xyz.data(), faces, 7);
  CHECK(std::equal(fewer.begin(), fewer.end(), points.begin()));
}

BlockLayout layout_of(float side, const std::vector<std::string>& names) {
  using Kind = BlockChannel::Kind;
  BlockLayout layout{side, {}};
  for (const std::string& name : names) {
    const std::vector<std::string> places = {"x", "y", "z", "height", "x/size", "y/size", "z/size"};
    const auto at = std::find(places.begin(), places.end(), name) - places.begin();
    layout.channels.push_back({static_cast<Kind>(at), name, name == "intensity" ? 200.0F : 1.0F});
  }
  return layout;
}

// Every point votes once in each block that contains it, and a block is at most 1 m wide.
void check_blocks() {
  const BlockLayout layout = layout_of(1, {"x", "y", "z", "red", "green", "blue", "x/size", "y/size", "z/size"});
  CHECK_EQUAL(layout.features().size(), 3u);
  for (const std::size_t count : {1u, 50u, 3000u}) {
    for (const float width : {0.0F, 0.4F, 1.0F, 2.6F}) {
      const std::vector<float> xyz = random_points(count, width, static_cast<unsigned>(count));
      std::vector<float> colors(xyz);
      for (float& color : colors) color /= 4;
      const scan::Columns columns(layout, xyz.data(), colors.data(), count);
      scan::Cover cover(columns, 64);
      scan::Block block;
      std::vector<int> votes(count);
      std::vector<float> channels(64 * 9);
      while (cover.next(block)) {
        CHECK_EQUAL(block.index.size(), 64u);
        CHECK(block.votes >= 1 && block.votes <= 64);
        for (std::size_t i = 0; i < block.votes; ++i) ++votes[block.index[i]];
        columns.fill(block, channels.data());
        for (std::size_t i = 0; i < 64; ++i) {
          const float* row = &channels[9 * i];
          CHECK(row[0] >= -0.5F && row[0] <= 0.5F && row[1] >= -0.5F && row[1] <= 0.5F);
          CHECK(std::equal(row + 3, row + 6, &colors[3 * block.index[i]]));
          for (std::size_t axis = 6; axis < 9; ++axis) CHECK(row[axis] >= 0 && row[axis] <= 1);
        }
      }
      CHECK(*std::min_element(votes.begin(), votes.end()) >= 1);
      CHECK(*std::max_element(votes.begin(), votes.end()) <= 4);
    }
  }
  const auto refused = [](float side, float width, const std::string& part) {
    const float far[6] = {0, 0, 0, width, 0, 0};
    try {
      scan::Columns(layout_of(side, {"x", "y", "z"}), far, nullptr, 2);
      CHECK(false);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(part) != std::string::npos);
    }
  };
  refused(1, 1001, "a scan 1001 m wide, expected at most 1000 m; ");
  refused(1, 1000.25F, "a scan 1000.25 m wide, expected at most 1000 m; ");
  refused(1, 0x1p100F, "a scan 1.2676506e+30 m wide, expected at most 1000 m; ");
}

// Lengths are divided by the side, heights start at the lowest cell around a block, features are scaled and clamped.
void check_channels() {
  const BlockLayout layout = layout_of(20, {"x", "y", "height", "intensity"});
  const std::size_t count = 4000;
  std::vector<float> xyz = random_points(count, 100, 1), intensity(count);
  for (std::size_t i = 0; i < count; ++i) {
    xyz[3 * i + 2] = i % 2 == 0 ? 3.0F : 7.0F;  // the ground and what stands on it
    intensity[i] = static_cast<float>(i % 3) * 150;
  }
  xyz[2] = -90;  // an outlier
  const scan::Columns columns(layout, xyz.data(), intensity.data(), count);
  scan::Cover cover(columns, 128);
  scan::Block block;
  std::vector<float> channels(128 * 4);
  while (cover.next(block)) {
    columns.fill(block, channels.data());
    for (std::size_t i = 0; i < 128; ++i) {
      const float* row = &channels[4 * i];
      CHECK(row[0] >= -0.5F && row[0] <= 0.5F && row[1] >= -0.5F && row[1] <= 0.5F);
      const std::uint32_t index = block.index[i];
      if (index > 0) CHECK_EQUAL(row[2], index % 2 == 0 ? 0.0F : 4.0F / 20);
      CHECK_EQUAL(row[3], index % 3 == 0 ? 0.0F : index % 3 == 1 ? 0.75F : 1.0F);
    }
  }
}

bipointnet_model* loaded(const PackedFile& file) {
  const Bytes bytes = file.bytes();
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load_bytes(bytes.data(), bytes.size(), &model), BIPOINTNET_OK);
  return model;
}

void check_label() {
  PackedFile file = segments_file();
  file.manifest = replaced(file.manifest, "1e-4", "1e30");
  file.manifest = replaced(file.manifest, "\"training\":{", "\"training\":{\"points\":7,");
  bipointnet_model* model = loaded(file);
  CHECK_EQUAL(bipointnet_points(model), 7u);
  CHECK_EQUAL(bipointnet_points(nullptr), 0u);
  for (const std::size_t count : {1u, 6u, 7u, 8u, 500u}) {
    std::vector<float> xyz = random_points(count, 2, 3);
    std::vector<int> one(count, -1), other(count, -2);
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 1, 1, one.data()), BIPOINTNET_OK);
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 1, 16, other.data()), BIPOINTNET_OK);
    CHECK(one == other);
    // The third category has only the first class.
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 2, 1, one.data()), BIPOINTNET_OK);
    CHECK_EQUAL(std::count(one.begin(), one.end(), 0), static_cast<std::ptrdiff_t>(count));
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 3, 1, one.data()), BIPOINTNET_ERROR_INPUT);
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 1, 0, one.data()), BIPOINTNET_ERROR_INPUT);
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, 0, 1, 1, one.data()), BIPOINTNET_ERROR_INPUT);
    CHECK_EQUAL(bipointnet_label(model, nullptr, nullptr, count, 1, 1, one.data()), BIPOINTNET_ERROR_INPUT);
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 1, 1, nullptr), BIPOINTNET_ERROR_INPUT);
    xyz[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, count, 1, 1, one.data()), BIPOINTNET_ERROR_INPUT);
  }
  bipointnet_free(model);
}

// Samples and blocks run in batches, but an error is about the one cloud of the user.
void check_errors_of_samples() {
  PackedFile file;
  file.manifest = packed_manifest(
      "[\"a\",\"b\"]", "none",
      program({operation("points", {}, {"points"}),
               operation("dense", {"points"}, {"logits"}, "\"outputs\":2,\"activation\":\"none\",\"groups\":1")}),
      "part");
  file.manifest = replaced(file.manifest, "1e-4", "1e30");
  file.manifest = replaced(file.manifest, "\"training\":{", "\"training\":{\"points\":2,");
  Bytes weight;
  for (int i = 0; i < 6; ++i) append_f32(weight, 1e20F);
  file.add("logits.weight", "F32", {2, 3}, weight);
  file.add_f32("logits.bias", {2});
  file.add_f32("golden", {17, 2});
  bipointnet_model* model = loaded(file);
  std::vector<float> xyz = random_points(6, 1, 1);
  std::vector<int> labels(6);
  CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, 6, -1, 1, labels.data()), BIPOINTNET_OK);
  xyz[4] = 1e30F;
  CHECK_EQUAL(bipointnet_label(model, xyz.data(), nullptr, 6, -1, 1, labels.data()), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(std::string(bipointnet_error()), "logits that are not finite, expected a cloud with smaller coordinates");
  bipointnet_free(model);
}

// A model of blocks whose points have the numbers x, y, z and red: their signs, and one layer.
PackedFile scene_file(int classes) {
  std::string names;
  for (int i = 0; i < classes; ++i) names += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
  PackedFile file;
  file.manifest = packed_manifest(
      "[" + names + "]", "none",
      program({operation("points", {}, {"points"}), operation("sign", {"points"}, {"signs"}, "\"at\":0"),
               operation("bilinear_float", {"signs"}, {"logits"},
                         "\"outputs\":" + std::to_string(classes) + ",\"activation\":\"none\",\"groups\":1")}),
      "semantic");
  file.manifest = replaced(file.manifest, "\"channels\":3", "\"channels\":4");
  file.manifest = replaced(file.manifest, "\"points\":17,\"tolerance\":1e-4", "\"points\":1,\"tolerance\":1e30");
  file.manifest = replaced(file.manifest, "\"training\":{",
                           "\"blocks\":{\"side\":1,\"unit\":\"m\",\"up\":\"z\",\"channels\":[\"x\",\"y\",\"z\",\"red\"]},"
                           "\"training\":{\"points\":1,");
  file.add_bits("logits.weight", classes, 4);
  file.add_f32("logits.line", {classes, 2});
  file.add_f32("golden", {1, classes});
  return file;
}

// The sentence about a feature shows why it is wrong.
void check_features() {
  bipointnet_model* model = loaded(scene_file(2));
  const float xyz[6] = {0, 0, 0, 1, 1, 1}, good[2] = {0, 1}, bad[2] = {0, 1.0000001F};
  int labels[2];
  CHECK_EQUAL(bipointnet_label(model, xyz, good, 2, -1, 1, labels), BIPOINTNET_OK);
  CHECK_EQUAL(bipointnet_label(model, xyz, bad, 2, -1, 1, labels), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(std::string(bipointnet_error()), "the feature red of point 1: 1.00000012, expected 0 to 1");
  CHECK_EQUAL(bipointnet_label(model, xyz, nullptr, 2, -1, 1, labels), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(std::string(bipointnet_error()), "no features, expected red per point");
  bipointnet_free(model);
}

// Numbers of floats that a size cannot count. On machines of 32 bits, a scan and its classes reach them long before memory
// ends; no file of a test is so large elsewhere.
void check_sizes_that_overflow() {
  const float xyz[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0};
  bool refused = false;
  try {
    scan::sample_surface(xyz, {0, 1, 2}, std::numeric_limits<std::size_t>::max() / 3 + 1);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK(refused);
  if (sizeof(std::size_t) > 4 || kSmallMemory) return;
  constexpr std::size_t count = 131081;  // times classes: 2^32 + 32750
  bipointnet_model* model = loaded(scene_file(32766));
  const std::vector<float> scan = random_points(count, 1, 1), red(count);
  std::vector<int> labels(count);
  CHECK_EQUAL(bipointnet_label(model, scan.data(), red.data(), count, -1, 1, labels.data()), BIPOINTNET_ERROR_MEMORY);
  bipointnet_free(model);
}

}  // namespace

int main() {
  check_shuffle();
  check_surface();
  check_blocks();
  check_channels();
  check_label();
  check_errors_of_samples();
  check_features();
  check_sizes_that_overflow();
  return check_report();
}
