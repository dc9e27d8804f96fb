#include "engine/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/run.h"
#include "engine/threads.h"
#include "engine/together.h"
#include "format/bits.h"
#include "format/text.h"

namespace bipointnet {
namespace {

// Whether copies of points change no result: there are only maxima over the points, whose shift does not count them.
bool ignores_copies(const Network& network) {
  for (const Operation& operation : network.operations) {
    const Step::Type type = type_of(network, operation);
    if (type == Step::Type::search || operation.op == Op::outer) return false;
    const bool pools = operation.op == Op::pool || operation.op == Op::bilinear_pool;
    if (pools && (operation.pool != Pool::max || (operation.shifted && operation.over != Over::distinct))) return false;
  }
  return true;
}

// Does work(); an error names the cloud of the batch.
template <class Work>
void naming_cloud(std::size_t cloud, const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    throw BatchError(cloud, error);
  }
}

}  // namespace

BatchError::BatchError(std::size_t cloud, const InputError& error)
    : InputError("cloud " + std::to_string(cloud) + ": " + error.what()), cause(error) {}

Model::Model(Network network, const Kernels& kernels, bool plain, bool predicts_only)
    : network_(std::move(network)),
      kernels_(kernels),
      plan_(make_plan(network_, kernels, plain ? PlanFor::plain : PlanFor::prediction,
                      [this, predicts_only](std::size_t operation) {
                        if (predicts_only) release_weights(network_, operation);
                      })),
      workspace_(network_, plan_, kernels_),
      predicts_only_(predicts_only),
      ignores_copies_(ignores_copies(network_)),
      runs_together_(runs_together(network_, plan_)) {
  if (predicts_only) release_lines(network_);
  check_golden();
}

void Model::check_golden() const {
  const std::size_t points = static_cast<std::size_t>(network_.golden_points);
  std::vector<float> numbers(points * static_cast<std::size_t>(network_.channels)), found(logits(1, points));
  std::uint64_t state = network_.golden_seed;
  for (float& number : numbers) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    number = static_cast<float>(static_cast<double>(z >> 40) * 0x1p-23 - 1.0);
  }
  try {
    run(numbers.data(), points, false, 1, network_.categories.empty() ? -1 : 0, found.data());
  } catch (const NotFinite&) {
    throw FormatError("golden: logits that are not finite, expected finite logits");
  } catch (const InputError& error) {
    throw FormatError(std::string("golden: ") + error.what());
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(std::abs(double{found[i]} - double{network_.golden[i]}) <= network_.golden_tolerance)) {
      throw FormatError("golden: logit " + std::to_string(i) + " is " + printed(double{found[i]}) + ", expected " +
                        printed(double{network_.golden[i]}) + " within " + printed(network_.golden_tolerance));
    }
  }
}

void Model::check_category(int category) const {
  const int count = static_cast<int>(network_.categories.size());
  if (count == 0 && category != -1) {
    throw InputError("category " + std::to_string(category) + ", expected none: the model has no categories");
  }
  if (count > 0 && (category < 0 || category >= count)) {
    throw InputError((category == -1 ? "no category" : "category " + std::to_string(category)) +
                     ", expected one from 0 to " + std::to_string(count - 1));
  }
}

std::size_t Model::logits(std::size_t clouds, std::size_t points) const {
  check_point_count(points);
  const std::size_t classes = network_.classes.size();
  const std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(float) / points;
  if (clouds > most / std::max(size(network_.channels), classes)) {
    throw InputError(std::to_string(clouds) + " clouds of " + std::to_string(points) +
                     " points, expected as many as fit into memory");
  }
  return clouds * (network_.per_point() ? points : 1) * classes;
}

void Model::predict(const float* numbers, std::size_t clouds, std::size_t points, bool raw, unsigned threads,
                    int category, float* logits) const {
  this->logits(clouds, points);
  check_category(category);
  if (threads < 1 || threads > kMaxThreads) {
    throw InputError(std::to_string(threads) + " threads, expected 1 to " + std::to_string(kMaxThreads));
  }
  const std::size_t size = points * static_cast<std::size_t>(network_.channels), written = this->logits(1, points);
  if (clouds == 1) return run(numbers, points, raw, threads, category, logits);
  const std::size_t each = clouds_per_block(clouds, points, threads), items = (clouds + each - 1) / each;
  parallel_for(items, std::min<std::size_t>(threads, items), [&](std::size_t item) {
    const std::size_t first = item * each, end = std::min(first + each, clouds);
    if (end - first == 1) {
      return naming_cloud(
          first, [&] { run(numbers + first * size, points, raw, 1, category, logits + first * written); });
    }
    std::vector<Cloud> together;
    const std::size_t span = span_of(used_points(points));
    for (std::size_t i = first; i < end; ++i) {
      const float* cloud = numbers + i * size;
      naming_cloud(i, [&] {
        together.push_back(prepared_cloud(cloud, points, checked_points(cloud, points, raw), raw, span));
      });
    }
    run_together(network_, plan_, kernels_, workspace_, together, span, category, logits + first * written);
    for (std::size_t i = first; i < end; ++i) {
      naming_cloud(i, [&] { expect_finite(logits + i * written, written); });
    }
  });
}

// The number of points of a cloud that are used at most.
std::size_t Model::used_points(std::size_t points) const {
  return network_.max_points > 0 ? std::min<std::size_t>(points, network_.max_points) : points;
}

// How many clouds of a batch run in one block: as many as fit, but not so many that a thread has nothing to do.
std::size_t Model::clouds_per_block(std::size_t clouds, std::size_t points, unsigned threads) const {
  const std::size_t most = runs_together_ ? size(kernels_.lanes) / span_of(used_points(points)) : 1;
  return std::max<std::size_t>(1, std::min(most, (clouds + threads - 1) / threads));
}

// Everything is computed again by a plan that keeps every value, so that the plan of predictions is not changed.
std::vector<Traced> Model::trace(const float* numbers, std::size_t points, bool raw, int category) const {
  if (predicts_only_) throw std::logic_error("trace() of a model that only predicts: its weights are freed");
  std::vector<float> found(logits(1, points));
  check_category(category);
  const Plan plan = make_plan(network_, kernels_, PlanFor::trace);
  Workspace workspace(network_, plan, kernels_);
  check_numbers(numbers, points, size(network_.channels));
  Run run(network_, plan, kernels_, workspace, prepared_cloud(numbers, points, KeptPoints{}, raw, size(kernels_.lanes)),
          category, 1);
  run.execute(found.data());
  std::vector<Traced> traced;
  for (std::size_t v = 0; v < network_.values.size(); ++v) {
    const Value& value = network_.values[v];
    const Storage& stored = run.state().values[v];
    Traced known{value.kind, run.state().sizes[size(value.domain)], size(value.channels), {}, {}, {}};
    const std::size_t words = words_for(known.columns);
    if (value.kind == Kind::floats) known.numbers.assign(stored.elements.begin(), stored.elements.end());
    for (std::size_t i = 0; value.kind == Kind::bits && i < known.rows * known.columns; ++i) {
      known.numbers.push_back(get_bit(stored.words.data() + i / known.columns * words, i % known.columns));
    }
    known.indices = stored.indices;
    known.counts = stored.counts;
    traced.push_back(std::move(known));
  }
  return traced;
}

std::vector<std::uint32_t> Model::kept_points(const float* numbers, std::size_t points) const {
  check_point_count(points);
  check_numbers(numbers, points, size(network_.channels));
  KeptPoints kept = bipointnet::kept_points(numbers, points, size(network_.channels), network_.max_points);
  if (!kept.index.empty()) return std::move(kept.index);
  std::vector<std::uint32_t> all(points);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// The points that a prediction uses; none are listed if it uses all.
KeptPoints Model::checked_points(const float* numbers, std::size_t points, bool raw) const {
  const std::size_t channels = size(network_.channels), most = network_.max_points;
  check_numbers(numbers, points, channels);
  const bool by_mean = network_.normalize == Normalize::mean && !raw;  // copies would move it
  if (!by_mean && ignores_copies_ && (most == 0 || points <= most)) return {};
  return bipointnet::kept_points(numbers, points, channels, most);
}

Cloud Model::prepared_cloud(const float* numbers, std::size_t points, const KeptPoints& kept, bool raw,
                            std::size_t lanes) const {
  const std::size_t channels = size(network_.channels);
  std::vector<float> chosen;
  chosen.reserve(kept.index.size() * channels);
  for (const std::uint32_t point : kept.index) {
    chosen.insert(chosen.end(), numbers + point * channels, numbers + (point + 1) * channels);
  }
  Cloud cloud = kept.index.empty() ? split_into_blocks(numbers, points, channels, lanes)
                                   : split_into_blocks(chosen.data(), kept.index.size(), channels, lanes);
  if (!raw) normalize(cloud, channels, lanes, network_.normalize);
  return cloud;
}

void Model::run(const float* numbers, std::size_t points, bool raw, unsigned threads, int category,
                float* logits) const {
  const KeptPoints kept = checked_points(numbers, points, raw);
  Run run(network_, plan_, kernels_, workspace_, prepared_cloud(numbers, points, kept, raw, size(kernels_.lanes)),
          category, threads);
  if (!network_.per_point() || kept.index.empty()) return run.execute(logits);
  const std::size_t classes = network_.classes.size();
  std::vector<float> of_kept(kept.index.size() * classes);
  run.execute(of_kept.data());
  for (std::size_t i = 0; i < points; ++i) {
    std::copy_n(of_kept.data() + kept.place[i] * classes, classes, logits + i * classes);
  }
}

}  // namespace bipointnet
