// The law of the engine: for every instruction set and every number of threads, its values are those of naive.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/model.h"
#include "format/cost.h"
#include "kernels/dispatch.h"
#include "naive.h"
#include "network_text.h"
#include "random_source.h"

namespace bipointnet {

// Equal bits; all NaN are equal.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return true;
  const auto same = [](float x, float y) { return (x != x && y != y) || std::memcmp(&x, &y, sizeof x) == 0; };
  return std::equal(a.begin(), a.end(), b.begin(), same);
}

inline bool all_finite(const std::vector<float>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}

// The logits of the interpreter; none if the format refuses the cloud, also for logits that are not finite.
inline std::optional<std::vector<float>> expected_logits(const Network& network, const std::vector<float>& cloud,
                                                         bool raw, int category) {
  try {
    std::vector<float> logits = naive::logits(network, cloud, raw, category);
    if (all_finite(logits)) return logits;
  } catch (const naive::Refused&) {
  }
  return std::nullopt;
}

// All values of the interpreter for all points; none as above.
inline std::optional<std::vector<naive::Value>> expected_values(const Network& network, const std::vector<float>& cloud,
                                                                bool raw, int category) {
  try {
    std::vector<naive::Value> values = naive::run(network, cloud, raw, category);
    if (all_finite(values[size(network.operations.back().out[0])].floats)) return values;
  } catch (const naive::Refused&) {
  }
  return std::nullopt;
}

// Sets a golden vector with tolerance 0. False if the format refuses its cloud.
inline bool set_golden(Network& network, int points = 5) {
  network.golden_points = points;
  network.golden_seed = 7;
  network.golden_tolerance = 0;
  network.golden.assign((network.per_point() ? size(points) : 1) * network.classes.size(), 0);
  const int category = network.categories.empty() ? -1 : 0;
  const auto logits = expected_logits(network, naive::golden_cloud(network), false, category);
  if (logits) network.golden = *logits;
  return logits.has_value();
}

// Multiply-adds and distances of a run of the interpreter.
inline double naive_cost(const Network& network, int points) {
  const std::vector<std::size_t> sizes = network.sizes(size(points));
  double sum = 0;
  for (const Operation& operation : network.operations) {
    const Cost one = cost(network, operation, sizes);
    sum += static_cast<double>(one.float_multiply_adds) + static_cast<double>(one.bit_multiply_adds) +
           static_cast<double>(one.distances);
    const Value& result = network.values[size(operation.out[0])];
    sum += static_cast<double>(sizes[size(result.domain)]) * result.channels;
  }
  return sum;
}

inline bool same_value(const Traced& found, const naive::Value& expected) {
  if (found.kind != expected.kind || found.rows != expected.rows || found.columns != expected.columns) return false;
  if (expected.kind == Kind::indices) return found.indices == expected.indices;
  if (expected.kind == Kind::floats) return same_bits(found.numbers, expected.floats);
  return same_bits(found.numbers, std::vector<float>(expected.bits.begin(), expected.bits.end()));
}

// A network on every instruction set.
class Engines {
 public:
  // The golden vector must be that of the interpreter.
  explicit Engines(const Network& network) : network_(network) {
    for (const Kernels* kernels : available_kernels()) {
      try {
        models_.push_back(std::make_unique<Model>(network, *kernels));
        predicting_.push_back(std::make_unique<Model>(network, *kernels, false, true));
      } catch (const FormatError& error) {
        CHECK_EQUAL(std::string(error.what()), "");
        explain(kernels->name, "golden cloud");
      }
    }
    try {
      if (!models_.empty()) plain_ = std::make_unique<Model>(network, models_.front()->kernels(), true);
    } catch (const FormatError& error) {
      CHECK_EQUAL(std::string(error.what()), "");
      explain("plain", "golden cloud");
    }
  }

  // Compares the logits with 1 to 4 threads, and all values.
  void check(const std::vector<float>& cloud, bool raw) {
    const std::size_t points = cloud.size() / size(network_.channels);
    const int categories = static_cast<int>(network_.categories.size());
    const int category = categories > 0 ? categories / 2 : -1;
    const auto expected = expected_logits(network_, cloud, raw, category);
    const auto values = expected_values(network_, cloud, raw, category);
    const auto plainly = plain_ ? predicted(*plain_, cloud, raw, category, 1) : expected;
    if (!CHECK(plainly.has_value() == expected.has_value()) || (plainly && !CHECK(same_bits(*plainly, *expected)))) {
      explain(plain_->kernels().name, "plain, " + std::to_string(points) + " points");
    }
    for (const auto& model : predicting_) {
      const auto found = predicted(*model, cloud, raw, category, 1);
      if (!CHECK(found.has_value() == expected.has_value()) || (found && !CHECK(same_bits(*found, *expected)))) {
        explain(model->kernels().name, "only predicts, " + std::to_string(points) + " points");
      }
    }
    for (const auto& model : models_) {
      const std::string where = std::to_string(points) + " points";
      for (unsigned threads = 1; threads <= 4; ++threads) {
        const auto found = predicted(*model, cloud, raw, category, threads);
        if (!CHECK(found.has_value() == expected.has_value()) ||
            (found && !CHECK(same_bits(*found, *expected)))) {
          explain(model->kernels().name, where + ", " + std::to_string(threads) + " threads");
        }
      }
      if (values) check_trace(*model, cloud, raw, category, *values);
      if (points <= 256) check_batch(*model, cloud, raw, category);
    }
  }

 private:
  static std::optional<std::vector<float>> predicted(const Model& model, const std::vector<float>& numbers, bool raw,
                                                     int category, unsigned threads, std::size_t clouds = 1) {
    const std::size_t points = numbers.size() / clouds / size(model.network().channels);
    std::vector<float> logits(model.logits(clouds, points));
    try {
      model.predict(numbers.data(), clouds, points, raw, threads, category, logits.data());
    } catch (const InputError&) {
      return std::nullopt;
    }
    return logits;
  }

  // In a batch each cloud has the logits that it has alone. The clouds differ in size, and in their number of copies.
  void check_batch(const Model& model, const std::vector<float>& cloud, bool raw, int category) {
    const std::size_t channels = size(network_.channels), points = cloud.size() / channels, clouds = 5;
    std::vector<float> batch;
    std::optional<std::vector<float>> expected(std::in_place);
    for (std::size_t i = 0; i < clouds; ++i) {
      std::vector<float> one(cloud);
      for (float& number : one) number *= 1 - 0.375f * static_cast<float>(i);
      for (std::size_t p = points - points * i / clouds; p < points; ++p) {
        std::copy_n(one.begin(), channels, one.begin() + static_cast<std::ptrdiff_t>(p * channels));
      }
      batch.insert(batch.end(), one.begin(), one.end());
      const auto alone = predicted(model, one, raw, category, 1);
      if (expected && alone) {
        expected->insert(expected->end(), alone->begin(), alone->end());
      } else {
        expected.reset();
      }
    }
    for (const unsigned threads : {1u, 3u}) {
      const auto found = predicted(model, batch, raw, category, threads, clouds);
      if (!CHECK(found.has_value() == expected.has_value()) || (found && !CHECK(same_bits(*found, *expected)))) {
        explain(model.kernels().name, "batch, " + std::to_string(points) + " points");
      }
    }
  }

  void check_trace(const Model& model, const std::vector<float>& cloud, bool raw, int category,
                   const std::vector<naive::Value>& expected) {
    const std::size_t points = cloud.size() / size(network_.channels);
    const std::vector<Traced> found = model.trace(cloud.data(), points, raw, category);
    if (!CHECK_EQUAL(found.size(), expected.size())) return;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (CHECK(same_value(found[i], expected[i]))) continue;
      const std::string name = network_.values[i].name;
      return explain(model.kernels().name, std::to_string(points) + " points, the first wrong value is " + name);
    }
  }

  // Prints the program once.
  void explain(const std::string& isa, const std::string& where) {
    std::cerr << "  " << isa << ", " << where << "\n" << (explained_ ? "" : text_of(network_));
    explained_ = true;
  }

  const Network& network_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::unique_ptr<Model>> predicting_;  // without the weights that only trace() reads
  std::unique_ptr<Model> plain_;                    // every point through every layer
  bool explained_ = false;
};

// The golden cloud is refused on every instruction set.
inline void check_refused(const Network& network) {
  for (const Kernels* kernels : available_kernels()) {
    bool refused = false;
    try {
      const Model model(network, *kernels);
    } catch (const FormatError&) {
      refused = true;
    }
    if (!CHECK(refused)) std::cerr << "  " << kernels->name << "\n" << text_of(network);
  }
}

// Compares one random cloud per size, and one with large coordinates. Clouds with an even number of points have equal
// points and ties.
inline void check_network(Network network, random::Source& source, std::initializer_list<int> sizes) {
  if (!set_golden(network)) return check_refused(network);
  Engines engines(network);
  for (const int points : sizes) {
    if (kSmallMemory && (points > 600 || naive_cost(network, points) > 5e6)) continue;  // it keeps every value
    const bool raw = source.one_in(2);
    engines.check(random::random_cloud(source, points, network.channels, points % 2 == 0), raw);
  }
  // Coordinates whose sums may overflow.
  std::vector<float> large = random::random_cloud(source, 9, network.channels, false);
  for (float& number : large) number *= 0x1p127f;
  engines.check(large, true);
}

}  // namespace bipointnet
