// Runs of a network that must equal those of the interpreter of naive.h, for the fuzz targets.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model.h"
#include "format/cost.h"
#include "kernels/dispatch.h"
#include "naive.h"
#include "sound.h"

namespace bipointnet::fuzz {

constexpr double kMostWork = 1 << 16;  // products, distances and numbers of a run

inline void expect(bool holds) {
  if (!holds) std::abort();
}

// The network in `bytes`, if the reader accepts them.
inline std::optional<Network> parsed(const std::vector<std::uint8_t>& bytes) {
  try {
    Network network = parse(bytes.data(), bytes.size());
    expect(sound(network));
    return network;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

// Whether a run on `points` points takes little time and memory.
inline bool is_small(const Network& network, std::size_t points) {
  std::vector<std::size_t> sizes;
  try {
    sizes = network.sizes(points);
  } catch (const std::bad_alloc&) {
    return false;
  }
  double work = 0;
  for (const Operation& operation : network.operations) {
    const Cost one = cost(network, operation, sizes);
    work += static_cast<double>(one.float_multiply_adds) + static_cast<double>(one.bit_multiply_adds) +
            static_cast<double>(one.distances);
    for (const int value : operation.out) {
      const Value& result = network.values[size(value)];
      work += static_cast<double>(sizes[size(result.domain)]) * result.channels;
    }
  }
  return work <= kMostWork;
}

inline int category_of(const Network& network) { return network.categories.empty() ? -1 : 0; }

// The logits of a cloud, or none if it is refused.
inline std::optional<std::vector<float>> found_logits(const Model& model, const std::vector<float>& cloud,
                                                      unsigned threads) {
  const std::size_t points = cloud.size() / size(model.network().channels);
  std::vector<float> logits(model.logits(1, points));
  try {
    model.predict(cloud.data(), 1, points, true, threads, category_of(model.network()), logits.data());
  } catch (const InputError&) {
    return std::nullopt;
  }
  return logits;
}

inline std::optional<std::vector<float>> expected_logits(const Network& network, const std::vector<float>& cloud,
                                                         bool raw) {
  try {
    std::vector<float> logits = naive::logits(network, cloud, raw, category_of(network));
    if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) return logits;
  } catch (const naive::Refused&) {
  }
  return std::nullopt;
}

inline void check_run(const Model& model, const std::vector<float>& cloud, unsigned threads) {
  const auto expected = expected_logits(model.network(), cloud, true), found = found_logits(model, cloud, threads);
  expect(found.has_value() == expected.has_value());
  if (!found) return;
  expect(found->size() == expected->size());
  expect(std::memcmp(found->data(), expected->data(), found->size() * sizeof(float)) == 0);
}

// Coordinates on a coarse grid for an even number of points, so that distances tie.
inline std::vector<float> made_cloud(const Network& network, std::size_t points) {
  std::vector<float> cloud(points * size(network.channels));
  std::uint32_t state = 1;
  for (float& number : cloud) {
    state = state * 1664525 + 1013904223;
    const float drawn = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30f;  // in [-2, 2]
    number = points % 2 == 0 ? std::floor(2 * drawn) / 2 : drawn;
  }
  return cloud;
}

// Plans the network, runs its golden cloud and compares a few runs with the interpreter. The golden vector of a mutant
// is wrong, so it is first compared as the file says and then replaced by that of the interpreter.
inline void run(Network network) {
  const Kernels& kernels = find_kernels("portable");
  if (!is_small(network, size(network.golden_points))) return;
  try {
    const Model model(network, kernels);
  } catch (const FormatError&) {
  }
  const auto golden = expected_logits(network, naive::golden_cloud(network), false);
  if (golden) network.golden = *golden;
  network.golden_tolerance = 0;
  std::optional<Model> model;
  try {
    model.emplace(network, kernels);
  } catch (const FormatError&) {
    return expect(!golden);
  }
  expect(golden.has_value());
  for (const std::size_t points : {1, 8, 21, 66}) {
    if (is_small(network, points)) check_run(*model, made_cloud(network, points), points < 66 ? 1 : 3);
  }
}

}  // namespace bipointnet::fuzz
