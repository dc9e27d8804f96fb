// Runs a network on clouds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cloud.h"
#include "kernels.h"
#include "network.h"
#include "sliced.h"

namespace bipointnet {

struct Vector;

// The value after one operation, for people and tests.
struct Value {
  bool bits = false;                // whether the numbers are 0 or 1
  std::size_t rows = 0;             // points; 0 for a vector
  std::size_t columns = 0;
  std::vector<float> numbers;
};

class Model {
 public:
  // Throws FormatError where the golden vector does not come out.
  Model(Network network, const Kernels& kernels);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Logits of `clouds` clouds of `points` points each. Throws InputError.
  void predict(const float* numbers, std::size_t clouds, std::size_t points, bool raw, unsigned threads,
               float* logits) const;

  // The value after every operation for one cloud.
  std::vector<Value> trace(const float* numbers, std::size_t points, bool raw) const;

  const Network& network() const { return network_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  struct Pass;
  struct Prepared;
  struct State;
  struct Scratch;
  struct Pooled;

  void check_golden() const;
  void plan_passes();
  void run(const float* numbers, std::size_t points, bool raw, unsigned threads, float* logits,
           std::vector<Value>* trace) const;
  void run_pass(const Pass& pass, const Cloud& cloud, State& state, unsigned threads) const;
  void run_blocks(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                  Scratch& scratch, Pooled& pooled) const;
  void run_distinct(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                    Scratch& scratch, Pooled& pooled) const;
  void run_block(std::size_t from, std::size_t to, const State& state, std::size_t valid, Scratch& scratch,
                 Pooled& pooled) const;
  void run_points(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                  Scratch& scratch, Pooled& pooled) const;
  void pool_point(std::size_t index, const State& state, Vector& vector, Pooled& pooled) const;
  void run_on_cloud(std::size_t index, State& state) const;
  std::shared_ptr<const std::vector<Starts>> thresholds(std::size_t points) const;
  std::unique_ptr<Scratch> take_scratch() const;
  void give_back(std::unique_ptr<Scratch> scratch) const;

  Network network_;
  const Kernels& kernels_;
  std::vector<Prepared> prepared_;  // one a layer
  std::vector<Pass> passes_;
  std::size_t widest_ = 0;          // the most channels any value of points has

  mutable std::mutex mutex_;        // guards what follows
  mutable std::vector<std::pair<std::size_t, std::shared_ptr<const std::vector<Starts>>>> known_thresholds_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace bipointnet
