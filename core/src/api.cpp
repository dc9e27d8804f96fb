// The C API: handles and status codes. No exception leaves it.
#include "bipointnet.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/threads.h"
#include "format/file.h"
#include "kernels/dispatch.h"
#include "scan/label.h"

struct bipointnet_model {
  bipointnet::Model model;
  std::vector<std::string> features = model.network().blocks.features();
  std::size_t points = bipointnet::scan::training_points(model.network());
};

namespace {

BIPOINTNET_THREAD_LOCAL std::string last_error;

bipointnet_status fail(bipointnet_status status, const char* message) {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

constexpr const char* kNoMemory = "not enough memory";

// Runs `work` and turns exceptions into status codes.
template <class Work>
bipointnet_status guarded(const Work& work) {
  try {
    work();
    return BIPOINTNET_OK;
  } catch (const bipointnet::FileError& error) {
    return fail(BIPOINTNET_ERROR_FILE, error.what());
  } catch (const bipointnet::FormatError& error) {
    return fail(BIPOINTNET_ERROR_FORMAT, error.what());
  } catch (const bipointnet::IsaError& error) {
    return fail(BIPOINTNET_ERROR_ISA, error.what());
  } catch (const std::bad_alloc&) {
    return fail(BIPOINTNET_ERROR_MEMORY, kNoMemory);
  } catch (const std::length_error&) {  // of a vector
    return fail(BIPOINTNET_ERROR_MEMORY, kNoMemory);
  } catch (const std::exception& error) {
    return fail(BIPOINTNET_ERROR_INPUT, error.what());
  }
}

std::string task_error(const bipointnet_model* model, const std::string& expected) {
  return std::string("a model with task ") + name_of(model->model.network().task) + ", expected one with " + expected;
}

bipointnet_model* make(const std::uint8_t* bytes, std::size_t size) {
  return new bipointnet_model{{bipointnet::parse(bytes, size), bipointnet::find_kernels(), false, true}};
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) throw bipointnet::InputError(std::string(name) + " is NULL, expected a valid pointer");
}

}  // namespace

bipointnet_status bipointnet_load(const char* path, bipointnet_model** model) {
  return guarded([&] {
    require(model, "model");
    *model = nullptr;
    require(path, "path");
    try {
      const std::vector<std::uint8_t> bytes = bipointnet::read_packed_file(path);
      *model = make(bytes.data(), bytes.size());
    } catch (const bipointnet::FileError& error) {
      throw bipointnet::FileError(std::string(path) + ": cannot read the file (" + error.what() + ")");
    } catch (const bipointnet::FormatError& error) {
      throw bipointnet::FormatError(std::string(path) + ": " + error.what());
    }
  });
}

bipointnet_status bipointnet_load_bytes(const void* bytes, size_t size, bipointnet_model** model) {
  return guarded([&] {
    require(model, "model");
    *model = nullptr;
    require(bytes, "bytes");
    *model = make(static_cast<const std::uint8_t*>(bytes), size);
  });
}

void bipointnet_free(bipointnet_model* model) { delete model; }

size_t bipointnet_channels(const bipointnet_model* model) {
  return model == nullptr ? 0 : static_cast<size_t>(model->model.network().channels);
}

size_t bipointnet_classes(const bipointnet_model* model) {
  return model == nullptr ? 0 : model->model.network().classes.size();
}

const char* bipointnet_class_name(const bipointnet_model* model, size_t index) {
  return index < bipointnet_classes(model) ? model->model.network().classes[index].c_str() : nullptr;
}

const char* bipointnet_task(const bipointnet_model* model) {
  return model == nullptr ? nullptr : name_of(model->model.network().task);
}

int bipointnet_segments(const bipointnet_model* model) {
  return model != nullptr && model->model.network().per_point() ? 1 : 0;
}

int bipointnet_normalizes(const bipointnet_model* model) {
  return model != nullptr && model->model.network().normalize != bipointnet::Normalize::none ? 1 : 0;
}

size_t bipointnet_categories(const bipointnet_model* model) {
  return model == nullptr ? 0 : model->model.network().categories.size();
}

const char* bipointnet_category_name(const bipointnet_model* model, size_t index) {
  return index < bipointnet_categories(model) ? model->model.network().categories[index].c_str() : nullptr;
}

const char* bipointnet_manifest(const bipointnet_model* model) {
  return model == nullptr ? nullptr : model->model.network().manifest.c_str();
}

bipointnet_status bipointnet_predict(const bipointnet_model* model, const float* cloud, size_t clouds, size_t points,
                                     int raw, unsigned threads, float* logits) {
  return guarded([&] {
    require(model, "model");
    require(cloud, "cloud");
    require(logits, "logits");
    if (model->model.network().per_point()) {
      throw bipointnet::InputError(task_error(model, "task classify; bipointnet_segment has logits per point"));
    }
    model->model.predict(cloud, clouds, points, raw != 0, threads, -1, logits);
  });
}

bipointnet_status bipointnet_segment(const bipointnet_model* model, const float* cloud, size_t points, int category,
                                     int raw, unsigned threads, int* labels, float* logits) {
  return guarded([&] {
    require(model, "model");
    require(cloud, "cloud");
    if (labels == nullptr) require(logits, "logits");
    if (!model->model.network().per_point()) {
      throw bipointnet::InputError(task_error(model, "task part or semantic; bipointnet_predict classifies clouds"));
    }
    std::vector<float> own(logits == nullptr ? model->model.logits(1, points) : 0);
    float* written = logits == nullptr ? own.data() : logits;
    model->model.predict(cloud, 1, points, raw != 0, threads, category, written);
    if (labels == nullptr) return;
    const bipointnet::Network& network = model->model.network();
    const std::vector<std::size_t> accepted = bipointnet::scan::accepted_classes(network, category);
    for (std::size_t i = 0; i < points; ++i) {
      labels[i] = bipointnet::scan::best_class(written + i * network.classes.size(), accepted);
    }
  });
}

const char* bipointnet_error(void) { return last_error.c_str(); }

const char* bipointnet_isa(void) {
  const char* name = nullptr;
  guarded([&] { name = bipointnet::find_kernels().name; });
  return name;
}

const char* bipointnet_version(void) { return BIPOINTNET_VERSION; }

size_t bipointnet_max_points(const bipointnet_model* model) {
  return model == nullptr ? 0 : model->model.network().max_points;
}

bipointnet_status bipointnet_kept(const bipointnet_model* model, const float* cloud, size_t points, size_t* kept,
                                  unsigned* indices) {
  return guarded([&] {
    require(model, "model");
    require(cloud, "cloud");
    require(kept, "kept");
    const std::vector<std::uint32_t> found = model->model.kept_points(cloud, points);
    *kept = found.size();
    if (indices != nullptr) std::copy(found.begin(), found.end(), indices);
  });
}

size_t bipointnet_points(const bipointnet_model* model) { return model == nullptr ? 0 : model->points; }

size_t bipointnet_features(const bipointnet_model* model) { return model == nullptr ? 0 : model->features.size(); }

const char* bipointnet_feature_name(const bipointnet_model* model, size_t index) {
  return index < bipointnet_features(model) ? model->features[index].c_str() : nullptr;
}

bipointnet_status bipointnet_label(const bipointnet_model* model, const float* xyz, const float* features,
                                   size_t points, int category, unsigned threads, int* labels) {
  return guarded([&] {
    require(model, "model");
    require(xyz, "xyz");
    require(labels, "labels");
    if (!model->model.network().per_point()) {
      throw bipointnet::InputError(task_error(model, "task part or semantic; bipointnet_predict classifies clouds"));
    }
    bipointnet::scan::label(model->model, xyz, features, points, category, threads, labels);
  });
}
