// One run of a network on one cloud.
//
// A program is cut into passes over the points, each from `points` or `join` to the pool that ends it or to the end, and
// vector operations between them. A pass goes through the cloud block by block, all of its operations on one block
// before the next, so that nothing of the size of the cloud is ever stored but the cloud, what the program keeps of it,
// its logits and, in large ones, the distinct codes of its points.
//
// Everything behind the first bits of a point follows from them and from the cloud. So where all that is kept of points
// comes from passes with the same first layers, it is worked out, joined and taken to the logits once for each distinct
// code instead of each point, and the logits of the codes are given to the points that have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/block.h"
#include "engine/cloud.h"
#include "engine/code_set.h"
#include "engine/plan.h"
#include "engine/state.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

class Run {
 public:
  // `cloud` is as the network sees it, of category number `category` where there are any. trace: where the value after
  // every operation goes, or null. All of them must outlive it.
  Run(const Network& network, const Plan& plan, const Kernels& kernels, Reuse& reuse, const Cloud& cloud, int category,
      unsigned threads, std::vector<Value>* trace);

  // Writes the logits, of the cloud or of its points. Throws InputError where they are not finite.
  void go(float* logits);

  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  void run_pass(const Pass& pass, float* logits);
  void run_cloud(const Pass& pass, std::size_t first, std::size_t last, Scratch& scratch, BlockRunner& runner,
                 float* logits);
  void run_codes(const Pass& pass, const CodeSet& codes, std::size_t first, std::size_t last, Scratch& scratch,
                 BlockRunner& runner, float* logits);
  void load_cloud(std::size_t block, Scratch& scratch) const;
  void load_codes(const CodeSet& codes, std::size_t channels, std::size_t block, Scratch& scratch) const;
  void encode(const Pass& pass, std::size_t first, std::size_t last, Scratch& scratch, BlockRunner& runner,
              CodeSet& codes, std::vector<std::uint32_t>* places) const;
  void find_shared_codes(const Pass& pass);
  void count_joined_vectors(std::size_t join);
  void run_on_cloud(std::size_t index);
  void record_vector(std::size_t index) const;

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  Reuse& reuse_;
  const Cloud& cloud_;
  unsigned threads_;
  std::size_t lanes_, width_;
  State state_;
  bool shares_ = false;                 // whether passes that share codes run on them
  CodeSet shared_codes_;
  std::vector<std::uint32_t> places_;   // of the points' codes among them
};

}  // namespace bipointnet
