// A packed model, ready to run.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cloud.h"
#include "engine/plan.h"
#include "engine/state.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

class Model {
 public:
  // Throws FormatError where the golden vector does not come out.
  Model(Network network, const Kernels& kernels);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Logits of `clouds` clouds of `points` points each: a number a class for each cloud, or for each of its points where
  // the model segments. category: the number of all clouds' category, -1 for a model that has none. Throws InputError.
  void predict(const float* numbers, std::size_t clouds, std::size_t points, bool raw, unsigned threads, int category,
               float* logits) const;

  // The value after every operation for one cloud.
  std::vector<Value> trace(const float* numbers, std::size_t points, bool raw, int category) const;

  // How many numbers predict() writes for a cloud of `points` points.
  std::size_t logits(std::size_t points) const { return (network_.segments ? points : 1) * network_.classes.size(); }

  const Network& network() const { return network_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  void check_golden() const;
  void check_category(int category) const;
  void run(const float* numbers, std::size_t points, bool raw, unsigned threads, int category, float* logits,
           std::vector<Value>* trace) const;

  Network network_;
  const Kernels& kernels_;
  Plan plan_;
  mutable Reuse reuse_;  // has a lock of its own
};

}  // namespace bipointnet
