#include "scan/label.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "engine/aligned.h"
#include "format/json.h"
#include "format/text.h"
#include "scan/blocks.h"
#include "scan/shuffle.h"

namespace bipointnet::scan {
namespace {

constexpr std::int64_t kMostPoints = 1 << 20;  // a larger number in a file is taken for a mistake
constexpr std::size_t kDefaultPoints = 1024;
constexpr std::size_t kBatch = 8;  // samples or blocks at once, or as many as there are threads
constexpr std::size_t kBatchPoints = 1 << 19;  // at most, so that memory is bounded

struct Job {
  const Model& model;
  std::size_t points;  // per sample or block
  std::vector<std::size_t> accepted;
  int category;
  unsigned threads;
  int* labels;

  std::size_t batch() const {
    const std::size_t most = std::max<std::size_t>(1, kBatchPoints / points);
    return std::min(most, std::max<std::size_t>(kBatch, threads));
  }

  // The logits of `clouds` clouds.
  void predict(const std::vector<float>& channels, std::size_t clouds, std::vector<float>& logits) const {
    logits.resize(model.logits(clouds, points));
    try {
      model.predict(channels.data(), clouds, points, false, threads, category, logits.data());
    } catch (const BatchError& error) {
      throw InputError(error.cause);  // the user has one cloud, and has not counted its samples
    }
  }
};

// A network reads as many points at once as in training, so the points of an object are divided into samples of that
// size: each covers the whole object. The last one is filled up from the first.
void label_object(const Job& job, const float* xyz, std::size_t count) {
  const std::size_t classes = job.model.network().classes.size();
  const std::size_t samples = (count + job.points - 1) / job.points;
  const std::vector<std::uint32_t> order = shuffled(count);
  std::vector<float> channels, logits;
  for (std::size_t start = 0; start < samples; start += job.batch()) {
    const std::size_t clouds = std::min(job.batch(), samples - start), rows = clouds * job.points;
    channels.resize(3 * rows);
    const auto index_of = [&](std::size_t row) { return order[(start * job.points + row) % count]; };
    for (std::size_t row = 0; row < rows; ++row) std::copy_n(xyz + 3 * index_of(row), 3, &channels[3 * row]);
    job.predict(channels, clouds, logits);
    for (std::size_t row = 0; row < rows; ++row) {
      job.labels[index_of(row)] = best_class(&logits[row * classes], job.accepted);
    }
  }
}

// A scan is covered with overlapping blocks, and the logits of a point are added over the blocks that contain it, in the
// order of the blocks.
void label_scene(const Job& job, const float* xyz, const float* features, std::size_t count) {
  const std::size_t classes = job.model.network().classes.size(), width = job.accepted.size();
  const BlockLayout& layout = job.model.network().blocks;
  const Columns columns(layout, xyz, features, count);
  Cover cover(columns, job.points);
  std::vector<Block> blocks(job.batch());
  std::vector<float> channels, logits, votes(checked_product(count, width));
  for (bool more = true; more;) {
    std::size_t filled = 0;
    while (filled < blocks.size() && (more = cover.next(blocks[filled]))) ++filled;
    if (filled == 0) break;
    const std::size_t size = job.points * layout.channels.size();
    channels.resize(filled * size);
    for (std::size_t i = 0; i < filled; ++i) columns.fill(blocks[i], &channels[i * size]);
    job.predict(channels, filled, logits);
    for (std::size_t i = 0; i < filled; ++i) {
      for (std::size_t j = 0; j < blocks[i].votes; ++j) {
        const float* scores = &logits[(i * job.points + j) * classes];
        float* sums = &votes[blocks[i].index[j] * width];
        for (std::size_t k = 0; k < width; ++k) sums[k] += scores[job.accepted[k]];
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const float* sums = &votes[i * width];
    job.labels[i] = static_cast<int>(job.accepted[static_cast<std::size_t>(std::max_element(sums, sums + width) - sums)]);
  }
}

void check_coordinates(const float* xyz, std::size_t count) {
  for (std::size_t i = 0; i < 3 * count; ++i) {
    if (std::isfinite(xyz[i])) continue;
    throw InputError("the coordinates of point " + std::to_string(i / 3) + ": " + printed(double{xyz[i]}) +
                     ", expected finite numbers");
  }
}

// Colors are numbers from 0 to 1; other features are finite.
void check_features(const BlockLayout& layout, const float* features, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (const BlockChannel& channel : layout.channels) {
      if (channel.kind != BlockChannel::Kind::feature) continue;
      const float value = *features++;
      if (channel.is_color() ? value >= 0 && value <= 1 : std::isfinite(value)) continue;
      throw InputError("the feature " + channel.name + " of point " + std::to_string(i) + ": " + printed(double{value}) +
                       ", expected " + (channel.is_color() ? "0 to 1" : "finite numbers"));
    }
  }
}

// "red, green and blue"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

}  // namespace

std::size_t training_points(const Network& network) {
  const Json json(network.manifest, "manifest");
  for (const auto& [key, training] : json.root().members()) {
    if (key != "training") continue;
    for (const auto& [name, value] : training.members()) {
      const std::int64_t points = value.integer().value_or(0);
      if (name == "points" && points > 0 && points <= kMostPoints) return static_cast<std::size_t>(points);
    }
  }
  return kDefaultPoints;
}

std::vector<std::size_t> accepted_classes(const Network& network, int category) {
  std::vector<std::size_t> accepted(network.classes.size());
  std::iota(accepted.begin(), accepted.end(), std::size_t{0});
  if (category >= 0 && static_cast<std::size_t>(category) < network.parts.size()) {
    const std::vector<int>& own = network.parts[static_cast<std::size_t>(category)];
    accepted.assign(own.begin(), own.end());
  }
  return accepted;
}

int best_class(const float* logits, const std::vector<std::size_t>& accepted) {
  const auto less = [logits](std::size_t a, std::size_t b) { return logits[a] < logits[b]; };
  return static_cast<int>(*std::max_element(accepted.begin(), accepted.end(), less));
}

void label(const Model& model, const float* xyz, const float* features, std::size_t count, int category,
           unsigned threads, int* labels) {
  const Network& network = model.network();
  check_point_count(count);
  check_coordinates(xyz, count);
  Job job{model, training_points(network), accepted_classes(network, category), category, threads, labels};
  if (network.task != Task::semantic) {
    if (network.channels != 3) {
      throw InputError("a model that reads " + std::to_string(network.channels) +
                       " channels per point, expected 3: x, y, z");
    }
    job.points = std::min(job.points, count);
    return label_object(job, xyz, count);
  }
  const BlockLayout& layout = network.blocks;
  if (layout.side == 0) {
    throw InputError("a model that does not say how scans are cut into blocks, expected the key `blocks` in its file");
  }
  const std::vector<std::string> names = layout.features();
  if (!names.empty()) {
    if (features == nullptr) throw InputError("no features, expected " + listed(names) + " per point");
    check_features(layout, features, count);
  }
  label_scene(job, xyz, features, count);
}

}  // namespace bipointnet::scan
