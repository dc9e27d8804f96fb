// The C API.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bipointnet.h"
#include "check.h"
#include "kernels/dispatch.h"
#include "packed_writer.h"

using namespace bipointnet;

namespace {

void check_isa_names() {
  setenv("BIPOINTNET_ISA", "portable", 1);
  CHECK_EQUAL(std::string(find_kernels().name), "portable");
  setenv("BIPOINTNET_ISA", "mmx", 1);
  CHECK(bipointnet_isa() == nullptr);
  CHECK(std::strstr(bipointnet_error(), "'mmx'") != nullptr);
  unsetenv("BIPOINTNET_ISA");
  CHECK_EQUAL(std::string(bipointnet_isa()), available_kernels().front()->name);
}

void check_c_api() {
  const Bytes file = small_file().bytes();
  bipointnet_model* model = nullptr;
  CHECK_EQUAL(bipointnet_load("no/such/file", &model), BIPOINTNET_ERROR_FILE);
  CHECK(std::strstr(bipointnet_error(), "no/such/file") != nullptr);
  CHECK_EQUAL(bipointnet_load_bytes(file.data(), 5, &model), BIPOINTNET_ERROR_FORMAT);
  CHECK_EQUAL(bipointnet_load_bytes(nullptr, 5, &model), BIPOINTNET_ERROR_INPUT);
  CHECK(model == nullptr);
}

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
  float logits[4];
  int labels[2];
  CHECK_EQUAL(bipointnet_predict(model, cloud, 2, 1, 0, 1, logits), BIPOINTNET_OK);
  for (const std::size_t clouds : {~std::size_t{0}, ~std::size_t{0} / 12 + 1}) {
    CHECK_EQUAL(bipointnet_predict(model, cloud, clouds, 1, 0, 1, logits), BIPOINTNET_ERROR_INPUT);
    CHECK(std::strstr(bipointnet_error(), "as many as fit into memory") != nullptr);
  }
  CHECK_EQUAL(bipointnet_segment(model, cloud, 2, -1, 0, 1, labels, logits), BIPOINTNET_ERROR_INPUT);
  CHECK(std::strstr(bipointnet_error(), "a model with task classify, expected one with task part or semantic") !=
        nullptr);
  bipointnet_free(model);
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
  check_c_api();
  check_clouds();
  check_segments();
  return check_report();
}
