// One run of a network on one cloud: the steps of its plan, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/block.h"
#include "engine/cloud.h"
#include "engine/code_set.h"
#include "engine/layout.h"
#include "engine/plan.h"
#include "engine/state.h"
#include "engine/threads.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"
#include "search/search.h"

namespace bipointnet {

struct NotFinite : InputError {
  using InputError::InputError;
};

// Throws NotFinite if a logit is not finite.
void expect_finite(const float* logits, std::size_t count);

class Run {
 public:
  // `cloud` is already normalized. `category` is -1 if the network has no categories. All references must outlive this
  // object.
  Run(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace, Cloud cloud,
      int category, unsigned threads);

  // Writes the logits of the cloud or of its points. Throws InputError if they are not finite.
  void execute(float* logits);

  // The values of the run, if the plan keeps everything.
  const State& state() const { return *state_; }

  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  void run_search(const Operation& operation);
  void write_points();

  // What the operations of a pass need before its first block.
  void prepare(const Pass& pass, const GroupLayout* layout);
  void prepare_pool(std::size_t index, const GroupLayout* layout);
  void count_distinct(std::size_t index, const GroupLayout* layout);
  void count_cloud_columns(std::size_t index);
  void make_matrix(std::size_t index);
  void make_room(const Pass& pass, std::size_t blocks);
  GroupLayout make_layout(const Pass& pass) const;

  void run_pass(const Pass& pass, float* logits);
  void run_blocks(const Pass& pass, std::size_t first, std::size_t last, std::size_t elements, BlockRunner& runner,
                  const CodeSet* codes, float* logits, std::vector<CodeSet>* own);
  void set_thresholds(const Pass& pass);
  void pool_codes(const Pass& pass, std::vector<std::vector<Pooled>>& pooled);
  const CodeSet* find_codes(const Pass& pass);
  void encode(const Pass& pass, CodeSet& codes, std::vector<std::uint32_t>* code_of);
  std::size_t blocks_for(std::size_t elements) const { return (elements + lanes_ - 1) / lanes_; }

  const Network& network_;
  const Plan& plan_;
  const Kernels& kernels_;
  Workspace& workspace_;
  Cloud cloud_;
  unsigned threads_;
  std::size_t lanes_, width_;
  search::Searches searches_;
  std::unique_ptr<State> state_;
  Mutex mutex_;  // guards sets of codes while threads merge theirs
  CodeSet shared_codes_;
  std::vector<std::uint32_t> code_of_;  // of each point, an index into shared_codes_
};

}  // namespace bipointnet
