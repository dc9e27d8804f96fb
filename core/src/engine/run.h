// One run of a network on one cloud.
//
// A program is split into passes over the points and vector operations between them. A pass starts at `points` or
// `join` and ends at a pool or at the end of the program. It processes the cloud block by block: all of its operations
// on one block before the next block. So the only data with the size of the cloud are the cloud itself, the values
// that the program keeps, the logits and, for large clouds, the distinct codes.
//
// The code of a point is its first bits. Everything after them depends on the code and on the cloud only. So if all
// kept values of points come from passes with the same first layers, the kept values and the logits are computed once
// per distinct code instead of once per point, and then copied to the points.
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
  // `cloud` is already normalized. `category` is -1 if the network has no categories. `trace` receives the value after
  // every operation; null is allowed. All references must outlive this object.
  Run(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace, const Cloud& cloud,
      int category, unsigned threads, std::vector<Value>* trace);

  // Writes the logits of the cloud or of its points. Throws InputError if they are not finite.
  void execute(float* logits);

  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  void run_pass(const Pass& pass, float* logits);
  void run_cloud(const Pass& pass, std::size_t first, std::size_t last, BlockBuffers& buffers, BlockRunner& runner,
                 float* logits);
  void run_codes(const Pass& pass, const CodeSet& codes, std::size_t first, std::size_t last, BlockBuffers& buffers,
                 BlockRunner& runner, float* logits);
  void load_cloud(std::size_t block, BlockBuffers& buffers) const;
  void load_codes(const CodeSet& codes, std::size_t channels, std::size_t block, BlockBuffers& buffers) const;
  void encode(const Pass& pass, std::size_t first, std::size_t last, BlockBuffers& buffers, BlockRunner& runner,
              CodeSet& codes, std::vector<std::uint32_t>* code_of) const;
  void find_shared_codes(const Pass& pass);
  void count_joined_vectors(std::size_t join);
  void run_vector_op(std::size_t index);
  void record_vector(std::size_t index) const;

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  Workspace& workspace_;
  const Cloud& cloud_;
  unsigned threads_;
  std::size_t lanes_, width_;
  State state_;
  bool shares_codes_ = false;  // whether passes that share codes run on distinct codes
  CodeSet shared_codes_;
  std::vector<std::uint32_t> code_of_;  // of each point, an index into shared_codes_
};

}  // namespace bipointnet
