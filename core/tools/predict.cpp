#include "predict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <numeric>
#include <stdexcept>

#include "clouds/lines.h"
#include "clouds/read.h"
#include "files.h"
#include "label_files.h"
#include "output.h"
#include "scan/sample.h"
#include "unlike.h"

namespace bipointnet::tool {
namespace {

namespace fs = std::filesystem;
using clouds::Cloud;

// The `top` most probable classes.
std::vector<Guess> guesses_of(const bipointnet_model* model, const std::vector<float>& logits, std::size_t top) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  for (const std::size_t index : order) weights.push_back(std::exp(double{logits[index]} - double{logits[order[0]]}));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Guess> guesses;
  for (std::size_t i = 0; i < std::min(top, order.size()); ++i) {
    guesses.push_back({bipointnet_class_name(model, order[i]), weights[i] / sum});
  }
  return guesses;
}

void require_ok(bipointnet_status status, const std::string& file) {
  if (status != BIPOINTNET_OK) throw Error(shown(file) + ": " + bipointnet_error());
}

double largest_side(const Cloud& cloud) {
  float extent = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    float low = cloud.points[axis], high = low;
    for (std::size_t i = axis; i < cloud.points.size(); i += 3) {
      low = std::min(low, cloud.points[i]);
      high = std::max(high, cloud.points[i]);
    }
    extent = std::max(extent, high - low);
  }
  return double{extent};
}

void classify(const bipointnet_model* model, const Cloud& cloud, const Options& options, Prediction& prediction) {
  const std::size_t usual = bipointnet_points(model), most = bipointnet_max_points(model);
  const std::vector<float> points =
      cloud.faces.empty() ? cloud.points
                          : scan::sample_surface(cloud.points.data(), cloud.faces, most > 0 ? most : usual);
  const std::size_t count = points.size() / 3;
  std::vector<float> logits(bipointnet_classes(model));
  require_ok(bipointnet_predict(model, points.data(), 1, count, 0, options.threads, logits.data()), prediction.file);
  require_ok(bipointnet_kept(model, points.data(), count, &prediction.points, nullptr), prediction.file);
  prediction.top = guesses_of(model, logits, options.most_probable());
  const std::vector<std::string> unlike =
      unlike_training(bipointnet_manifest(model), largest_side(cloud),
                      cloud.faces.empty() ? cloud.size() : usual, prediction.top[0].probability);
  prediction.warnings.insert(prediction.warnings.end(), unlike.begin(), unlike.end());
}

// The values of one feature of the model, one per point: a color, or a column of the file.
std::vector<float> feature_values(const Cloud& cloud, const std::string& name, const std::string& file) {
  const std::vector<std::string> colors = {"red", "green", "blue"};
  const auto color = std::find(colors.begin(), colors.end(), name);
  std::vector<float> values(cloud.size());
  if (color != colors.end()) {
    if (cloud.colors.empty()) {
      throw Error(shown(file) + ": no colors, which the model reads, expected red, green and blue per point");
    }
    const auto first = static_cast<std::size_t>(color - colors.begin());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = cloud.colors[3 * i + first];
    return values;
  }
  for (const clouds::Column& column : cloud.fields) {
    if (column.name != name) continue;
    std::transform(column.values.begin(), column.values.end(), values.begin(),
                   [](double value) { return static_cast<float>(value); });
    return values;
  }
  throw Error(shown(file) + ": no column " + name + ", which the model reads, expected it per point");
}

// What the model reads per point besides coordinates, point by point.
std::vector<float> features_of(const bipointnet_model* model, const Cloud& cloud, const std::string& file) {
  const std::size_t count = bipointnet_features(model);
  std::vector<float> features(count * cloud.size());
  for (std::size_t feature = 0; feature < count; ++feature) {
    const std::vector<float> values = feature_values(cloud, bipointnet_feature_name(model, feature), file);
    for (std::size_t i = 0; i < values.size(); ++i) features[count * i + feature] = values[i];
  }
  return features;
}

void label_points(const bipointnet_model* model, const Cloud& cloud, const Options& options, Prediction& prediction) {
  std::vector<int> labels(cloud.size());
  const std::vector<float> features = features_of(model, cloud, prediction.file);
  require_ok(bipointnet_label(model, cloud.points.data(), features.data(), cloud.size(), category_index(model, options),
                              options.threads, labels.data()),
             prediction.file);
  prediction.points = labels.size();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < bipointnet_classes(model); ++i) {
    names.emplace_back(bipointnet_class_name(model, i));
    const auto count = std::count(labels.begin(), labels.end(), static_cast<int>(i));
    if (count > 0) prediction.classes.push_back({names.back(), static_cast<std::size_t>(count)});
  }
  if (options.labels.empty()) return;
  write_labels(options.labels, cloud, labels, names);
  prediction.written.push_back(options.labels);
}

}  // namespace

Model load_model(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const bool run = fs::exists(fs::path(path) / "last.safetensors", ignored);
    throw Error(path + (run ? ": a run folder, expected a packed model; export it first: bipointnet export " + path +
                                  " -o FILE.bpn"
                            : ": a folder, expected a packed model; name the file"));
  }
  bipointnet_model* model = nullptr;
  if (bipointnet_status status = bipointnet_load(path.c_str(), &model); status != BIPOINTNET_OK) {
    const bool checkpoint =
        status == BIPOINTNET_ERROR_FORMAT && clouds::lowered(fs::path(path).extension().string()) == ".safetensors";
    throw Error(bipointnet_error() + (checkpoint ? "; if it is a checkpoint, export it first: bipointnet export " +
                                                       path + " -o FILE.bpn"
                                                 : std::string()));
  }
  return Model(model, bipointnet_free);
}

int category_index(const bipointnet_model* model, const Options& options) {
  std::vector<std::string> names;
  std::vector<int> alike;  // but for upper and lower case
  for (std::size_t i = 0; i < bipointnet_categories(model); ++i) {
    names.emplace_back(bipointnet_category_name(model, i));
    if (options.category == names.back()) return static_cast<int>(i);
    if (clouds::lowered(options.category) == clouds::lowered(names.back())) alike.push_back(static_cast<int>(i));
  }
  if (alike.size() == 1) return alike[0];
  if (!names.empty()) {
    const std::string found = options.category.empty() ? "not given" : "'" + options.category + "'";
    throw Error("--category is " + found + ", expected one of " + joined(names, ", "));
  }
  if (!options.category.empty()) throw Error("--category is given, expected none: the model has no category input");
  return -1;
}

Prediction predict_file(const bipointnet_model* model, const std::string& file, const Options& options) {
  Prediction prediction;
  prediction.file = file;
  const auto failed = [&file](const std::string& sentence) {
    Prediction none;
    none.file = file;
    none.error = sentence;
    return none;
  };
  const auto no_memory = [&] {
    return failed(shown(file) + ": not enough memory for this file, expected a smaller one");
  };
  try {
    const Cloud cloud = clouds::read_cloud(file, options.reading);
    prediction.task = bipointnet_task(model);
    if (cloud.dropped > 0) {
      prediction.warnings.push_back(std::to_string(cloud.dropped) + " of " +
                                    std::to_string(cloud.dropped + cloud.size()) +
                                    " points have no finite coordinates and were left out");
    }
    if (bipointnet_segments(model) != 0) {
      label_points(model, cloud, options, prediction);
    } else {
      classify(model, cloud, options, prediction);
    }
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::length_error&) {  // of a vector
    return no_memory();
  } catch (const std::runtime_error& error) {  // Error, CloudError
    return failed(error.what());
  }
  return prediction;
}

std::string dump_file(const std::string& file, const Options& options) {
  const Cloud cloud = clouds::read_cloud(file, options.reading);
  std::string text;
  const auto append = [&text](const char* before, float number) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%s%.9g", before, double{number});
    text += digits;
  };
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    for (std::size_t axis = 0; axis < 3; ++axis) append(axis == 0 ? "" : " ", cloud.points[3 * i + axis]);
    for (std::size_t c = 0; c < 3 && !cloud.colors.empty(); ++c) append(" ", cloud.colors[3 * i + c]);
    text += '\n';
  }
  return text;
}

}  // namespace bipointnet::tool
