// The C API.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bipointnet.h"
#include "check.h"
#include "engine/aligned.h"
#include "engine/model.h"
#include "failing_new.h"
#include "kernels/dispatch.h"
#include "packed_writer.h"

using namespace bipointnet;

namespace {

constexpr std::size_t kMost = ~std::size_t{0};

void check_isa_names() {
  setenv("BIPOINTNET_ISA", "portable", 1);
  CHECK_EQUAL(std::string(find_kernels().name), "portable");
  setenv("BIPOINTNET_ISA", "mmx", 1);
  CHECK(bipointnet_isa() == nullptr);
  CHECK(std::strstr(bipointnet_error(), "'mmx'") != nullptr);
  unsetenv("BIPOINTNET_ISA");
  CHECK_EQUAL(std::string(bipointnet_isa()), available_kernels().front()->name);
}

bool error_has(const std::string& part) {
  const std::string error = bipointnet_error();
  if (error.find(part) != std::string::npos && error.find('\n') == std::string::npos) return true;
  std::cerr << "  found    " << error << "\n";
  return false;
}

void check_loading_bytes() {
  const Bytes file = small_file().bytes();
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load_bytes(file.data(), 5, &model), BIPOINTNET_ERROR_FORMAT);
  CHECK_EQUAL(bipointnet_load_bytes(nullptr, 5, &model), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("bytes is NULL"));
  CHECK_EQUAL(bipointnet_load_bytes(file.data(), file.size(), nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("model is NULL"));
  // Bytes after the end, as the header says it, are not read.
  for (const std::size_t size : {file.size() + 1, kMost / 2, kMost - 1, kMost}) {
    CHECK_EQUAL(bipointnet_load_bytes(file.data(), size, &model), BIPOINTNET_ERROR_FORMAT);
    CHECK(error_has("file: more bytes than its header describes, expected " + std::to_string(file.size())));
  }
  CHECK_EQUAL(bipointnet_load_bytes(file.data(), file.size() - 1, &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("file: cut short after " + std::to_string(file.size() - 1) + " bytes, expected " +
                  std::to_string(file.size())));
  Bytes flipped = file;
  flipped[file.size() - 20] ^= 1;
  CHECK_EQUAL(bipointnet_load_bytes(flipped.data(), flipped.size(), &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("checksum: 0x"));
  CHECK(model == nullptr);
}

#ifndef BIPOINTNET_NO_FILES

// A file of the test, removed at its end.
struct TestFile {
  std::string path = (std::filesystem::temp_directory_path() / ("test_api." + std::to_string(::getpid()))).string();

  void write(const Bytes& bytes, std::uintmax_t size) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::filesystem::resize_file(path, size);
  }
  ~TestFile() { std::filesystem::remove(path); }
};

void check_loading_files() {
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load("no/such/file", &model), BIPOINTNET_ERROR_FILE);
  CHECK(error_has("no/such/file: cannot read the file ("));
  CHECK_EQUAL(bipointnet_load("/", &model), BIPOINTNET_ERROR_FILE);
  CHECK(error_has("/: cannot read the file ("));
  CHECK_EQUAL(bipointnet_load(nullptr, &model), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("path is NULL"));
  CHECK_EQUAL(bipointnet_load("x", nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_load("/dev/zero", &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("/dev/zero: header: no '{' at its start"));

  PackedFile packed = small_file();
  packed.manifest = replaced(packed.manifest, "1e-4", "1e30");
  const Bytes bytes = packed.bytes();
  TestFile file;
  file.write(bytes, bytes.size());
  CHECK_EQUAL(bipointnet_load(file.path.c_str(), &model), BIPOINTNET_OK);
  bipointnet_free(model);
  file.write(bytes, bytes.size() - 9);
  CHECK_EQUAL(bipointnet_load(file.path.c_str(), &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has(file.path + ": file: cut short after " + std::to_string(bytes.size() - 9) + " bytes, expected " +
                  std::to_string(bytes.size())));

  // Sparse files of 8 GB: more than a 32-bit process can hold, so they are refused before the rest is read.
  constexpr std::uintmax_t large = std::uintmax_t{1} << 33;
  file.write(bytes, large);
  CHECK_EQUAL(bipointnet_load(file.path.c_str(), &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("more bytes than its header describes"));
  file.write({'#', ' ', 't', 'e', 'x', 't', ' ', '\n'}, large);
  CHECK_EQUAL(bipointnet_load(file.path.c_str(), &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("header: length "));
  // The header of another safetensors file.
  file.write(assembled("{\"w\":{\"dtype\":\"BF16\",\"shape\":[4294967292],\"data_offsets\":[0,8589934584]}}", {}), large);
  CHECK_EQUAL(bipointnet_load(file.path.c_str(), &model), BIPOINTNET_ERROR_FORMAT);
  CHECK(error_has("w: dtype \"BF16\", expected U64"));
  CHECK(model == nullptr);
}

#endif

// The golden vectors of these files are synthetic, so any logits are accepted.
bipointnet_model* loaded(PackedFile file) {
  file.manifest = replaced(file.manifest, "1e-4", "1e30");
  const Bytes bytes = file.bytes();
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load_bytes(bytes.data(), bytes.size(), &model), BIPOINTNET_OK);
  return model;
}

void check_clouds() {
  bipointnet_model* model = loaded(small_file());
  CHECK_EQUAL(std::string(bipointnet_task(model)), "classify");
  CHECK_EQUAL(bipointnet_segments(model), 0);
  CHECK_EQUAL(bipointnet_normalizes(model), 0);
  CHECK_EQUAL(bipointnet_categories(model), 0u);
  CHECK(bipointnet_category_name(model, 0) == nullptr);
  const float cloud[6] = {1, 2, 3, -4, 5, -6};
  float logits[4] = {};
  int labels[2];
  CHECK_EQUAL(bipointnet_predict(model, cloud, 0, 1, 0, 1, logits), BIPOINTNET_OK);
  CHECK(logits[0] == 0 && logits[1] == 0);
  CHECK_EQUAL(bipointnet_predict(model, cloud, 2, 1, 0, kMaxThreads, logits), BIPOINTNET_OK);
  const auto refused = [&](std::size_t clouds, std::size_t points, unsigned threads, const char* part) {
    CHECK_EQUAL(bipointnet_predict(model, cloud, clouds, points, 0, threads, logits), BIPOINTNET_ERROR_INPUT);
    CHECK(error_has(part));
  };
  for (const unsigned threads : {0u, kMaxThreads + 1, ~0u}) refused(2, 1, threads, "threads, expected 1 to 1024");
  refused(1, 0, 1, "a cloud of 0 points");
  // Products with 3 channels and 4 bytes that overflow, on machines of 32 and of 64 bits.
  for (const std::size_t clouds : {kMost, kMost / 12 + 1, kMost / 3, kMost / 4 + 1, kMost / 2 + 1}) {
    refused(clouds, 1, 1, "as many as fit into memory");
    refused(clouds, 3, 1, "as many as fit into memory");
  }
  for (const std::size_t points : {kMost, kMost / 2 + 2, kMost / 3 + 1, kMost / 4 + 1, kMost / 12 + 1}) {
    const bool wide = points > 0xFFFFFFFFu;
    refused(1, points, 1, wide ? "points, expected fewer than 2^32" : "as many as fit into memory");
    refused(kMost, points, 1, wide ? "points, expected fewer than 2^32" : "as many as fit into memory");
  }
  refused(kMost / 0xFFFFFFFFu, 0xFFFFFFFFu, 1, "as many as fit into memory");
  CHECK_EQUAL(bipointnet_predict(nullptr, cloud, 1, 1, 0, 1, logits), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("model is NULL"));
  CHECK_EQUAL(bipointnet_predict(model, nullptr, 1, 1, 0, 1, logits), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("cloud is NULL"));
  CHECK_EQUAL(bipointnet_predict(model, cloud, 1, 1, 0, 1, nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("logits is NULL"));
  const float repeated[12] = {1, 2, 3, -4, 5, -6, 1, 2, 3, 0, 0, 0};
  unsigned indices[4];
  std::size_t kept = 0;
  CHECK_EQUAL(bipointnet_max_points(model), 0u);
  CHECK_EQUAL(bipointnet_max_points(nullptr), 0u);
  CHECK_EQUAL(bipointnet_kept(model, repeated, 4, &kept, indices), BIPOINTNET_OK);
  CHECK(kept == 3 && indices[0] == 0 && indices[1] == 1 && indices[2] == 3);
  CHECK_EQUAL(bipointnet_kept(model, cloud, 2, &kept, nullptr), BIPOINTNET_OK);
  CHECK_EQUAL(kept, 2u);
  CHECK_EQUAL(bipointnet_kept(model, cloud, 0, &kept, nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_kept(model, cloud, 2, nullptr, nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK(error_has("kept is NULL"));
  CHECK_EQUAL(bipointnet_segment(model, cloud, 2, -1, 0, 1, labels, logits), BIPOINTNET_ERROR_INPUT);
  CHECK(std::strstr(bipointnet_error(), "a model with task classify, expected one with task part or semantic") !=
        nullptr);
  bipointnet_free(model);
}

// What a function without a status returns does not depend on the memory that is left.
void check_properties_without_memory() {
  bipointnet_model* model = loaded(small_file());
  std::size_t points = 0, features = 1;
  CHECK(succeeds_after(0, [&] {
    points = bipointnet_points(model);
    features = bipointnet_features(model);
  }));
  CHECK(points == 1024 && features == 0);
  bipointnet_free(model);
}

// The sizes of memory that a run computes.
void check_products() {
  CHECK_EQUAL(checked_product(kMost, 1), kMost);
  CHECK_EQUAL(checked_product(kMost / 8, 8), kMost / 8 * 8);
  CHECK_EQUAL(checked_product(0, kMost), 0u);
  CHECK_EQUAL(checked_product(kMost, 0), 0u);
  int refused = 0;
  for (const std::size_t count : {kMost / 8 + 1, kMost / 2, kMost}) {
    try {
      checked_product(count, 8);
    } catch (const std::bad_alloc&) {
      ++refused;
    }
  }
  CHECK_EQUAL(refused, 3);
}

void check_segments() {
  bipointnet_model* model = loaded(segments_file());
  CHECK_EQUAL(std::string(bipointnet_task(model)), "part");
  CHECK_EQUAL(bipointnet_segments(model), 1);
  CHECK_EQUAL(bipointnet_categories(model), 3u);
  CHECK_EQUAL(std::string(bipointnet_category_name(model, 1)), "l\xC3\xA4mp");
  CHECK(bipointnet_category_name(model, 3) == nullptr);
  const float cloud[9] = {1, 2, 3, -4, 5, -6, 7, -8, -9};
  std::vector<float> logits(6), own(6);
  std::vector<int> labels(3);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 1, 0, 1, labels.data(), logits.data()), BIPOINTNET_OK);
  for (std::size_t i = 0; i < 3; ++i) CHECK_EQUAL(labels[i], logits[2 * i] < logits[2 * i + 1] ? 1 : 0);
  const std::vector<int> kept = labels;
  labels.assign(3, -1);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 1, 0, 2, labels.data(), nullptr), BIPOINTNET_OK);
  CHECK(labels == kept);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 1, 0, 1, nullptr, own.data()), BIPOINTNET_OK);
  CHECK(own == logits);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 0, 0, 1, nullptr, own.data()), BIPOINTNET_OK);
  CHECK(own != logits);
  // The third category has only the first class.
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 2, 0, 1, labels.data(), own.data()), BIPOINTNET_OK);
  CHECK(labels == (std::vector<int>{0, 0, 0}) && (own[0] < own[1] || own[2] < own[3] || own[4] < own[5]));
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 1, 0, 1, nullptr, nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 0, 1, 0, 1, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 3, 0, 1, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK(std::strstr(bipointnet_error(), "category 3, expected one from 0 to 2") != nullptr);
  for (const std::size_t points : {kMost, kMost / 2 + 1, kMost / 12 + 1}) {
    CHECK_EQUAL(bipointnet_segment(model, cloud, points, 1, 0, 1, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
    CHECK_EQUAL(bipointnet_segment(model, cloud, points, 1, 0, 1, nullptr, own.data()), BIPOINTNET_ERROR_INPUT);
  }
  // More logits than a vector can have, on a machine of 32 bits.
  const std::size_t many = kMost / 16 + 1;
  CHECK_EQUAL(bipointnet_segment(model, cloud, many, 1, 0, 1, labels.data(), nullptr),
              many > 0xFFFFFFFFu ? BIPOINTNET_ERROR_INPUT : BIPOINTNET_ERROR_MEMORY);
  CHECK(error_has(many > 0xFFFFFFFFu ? "points, expected fewer than 2^32" : "not enough memory"));
  for (const unsigned threads : {0u, ~0u}) {
    CHECK_EQUAL(bipointnet_segment(model, cloud, 3, 1, 0, threads, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
  }
  CHECK_EQUAL(bipointnet_segment(nullptr, cloud, 3, 1, 0, 1, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_segment(model, nullptr, 3, 1, 0, 1, labels.data(), nullptr), BIPOINTNET_ERROR_INPUT);
  CHECK_EQUAL(bipointnet_predict(model, cloud, 1, 3, 0, 1, own.data()), BIPOINTNET_ERROR_INPUT);
  CHECK(std::strstr(bipointnet_error(), "a model with task part, expected one with task classify") != nullptr);
  bipointnet_free(model);
  CHECK(bipointnet_task(nullptr) == nullptr);
  CHECK_EQUAL(bipointnet_segments(nullptr), 0);
  CHECK_EQUAL(bipointnet_normalizes(nullptr), 0);
  CHECK_EQUAL(bipointnet_categories(nullptr), 0u);
}

}  // namespace

int main() {
  check_isa_names();
  check_loading_bytes();
#ifndef BIPOINTNET_NO_FILES
  check_loading_files();
#endif
  check_clouds();
  check_properties_without_memory();
  check_products();
  check_segments();
  return check_report();
}
