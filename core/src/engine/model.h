// A packed model that is ready to run.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cloud.h"
#include "engine/kept.h"
#include "engine/plan.h"
#include "engine/storage.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

constexpr unsigned kMaxThreads = 1024;

// An error about one of several clouds, which are counted from 0.
struct BatchError : InputError {
  BatchError(std::size_t cloud, const InputError& error);

  InputError cause;
};

class Model {
 public:
  // plain: every point runs through every layer, which gives the same answers. predicts_only: weights that only
  // trace() reads are freed. Throws FormatError if the network does not reproduce its golden vector.
  Model(Network network, const Kernels& kernels, bool plain = false, bool predicts_only = false);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Writes the logits of `clouds` clouds of `points` points each: one per class for each cloud or, if the network has
  // logits per point, for each point. category: the category of all clouds, -1 if the model has none. Throws
  // InputError; BatchError if there are several clouds.
  void predict(const float* numbers, std::size_t clouds, std::size_t points, bool raw, unsigned threads, int category,
               float* logits) const;

  // All values for all points of one cloud, in the order of Network::values: none is left out. Throws InputError, and
  // std::logic_error if the model only predicts.
  std::vector<Traced> trace(const float* numbers, std::size_t points, bool raw, int category) const;

  // The indices of the points of one cloud that predict() uses, ascending. Throws InputError.
  std::vector<std::uint32_t> kept_points(const float* numbers, std::size_t points) const;

  // The number of floats that predict() writes. Throws InputError if these, or the clouds, do not fit into memory.
  std::size_t logits(std::size_t clouds, std::size_t points) const;

  const Network& network() const { return network_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  void check_golden() const;
  void check_category(int category) const;
  KeptPoints checked_points(const float* numbers, std::size_t points, bool raw) const;
  Cloud prepared_cloud(const float* numbers, std::size_t points, const KeptPoints& kept, bool raw,
                       std::size_t lanes) const;
  std::size_t used_points(std::size_t points) const;
  std::size_t clouds_per_block(std::size_t clouds, std::size_t points, unsigned threads) const;
  void run(const float* numbers, std::size_t points, bool raw, unsigned threads, int category, float* logits) const;

  Network network_;
  const Kernels& kernels_;
  Plan plan_;
  mutable Workspace workspace_;  // thread-safe
  bool predicts_only_;           // whether trace() has no weights
  bool ignores_copies_;          // whether no operation depends on how often a point occurs
  bool runs_together_;           // whether small clouds can share a block
};

}  // namespace bipointnet
