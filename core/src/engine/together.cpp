#include "engine/together.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/block.h"
#include "engine/pooled.h"
#include "engine/vector_ops.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

bool is_maximum_of_bits(const Operation& operation) {
  return operation.op == Op::bilinear_pool && operation.pool == Pool::max && operation.out.size() == 1;
}

// The position of the first pool of a pass.
std::size_t first_pool(const Network& network, const Pass& pass) {
  std::size_t position = 0;
  while (position < pass.operations.size() && !reduces(network.operations[size(pass.operations[position])].op)) ++position;
  return position;
}

// The clouds in the lanes of one block. The lanes after the last point of a cloud repeat its first point, which changes
// no maximum and no number of distinct codes.
Cloud joined(const std::vector<Cloud>& clouds, std::size_t channels, std::size_t span, std::size_t lanes) {
  Cloud block{lanes, 1, {}};
  block.rows.resize(channels * lanes);
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    for (std::size_t c = 0; c < channels; ++c) {
      const float* from = clouds[i].rows.data() + c * span;
      float* to = block.rows.data() + c * lanes + i * span;
      std::copy_n(from, clouds[i].points, to);
      std::fill(to + clouds[i].points, to + span, from[0]);
    }
  }
  return block;
}

}  // namespace

bool runs_together(const Network& network, const Plan& plan) {
  if (!plan.uses_codes || network.per_point() || plan.passes.size() != 1) return false;
  const Pass& pass = plan.passes.front();
  if (pass.domain != kPointDomain || pass.keeps_elements()) return false;
  for (const Step& step : plan.steps) {
    if (step.type == Step::Type::search) return false;
  }
  const std::size_t pools = first_pool(network, pass);
  for (std::size_t position = 0; position < pass.operations.size(); ++position) {
    const Operation& operation = network.operations[size(pass.operations[position])];
    if (position >= pools && !is_maximum_of_bits(operation)) return false;
    if (plan.operations[size(pass.operations[position])].cloud.inputs > 0) return false;
    for (const int value : operation.in) {
      if (network.values[size(value)].domain != kPointDomain) return false;  // it would differ between the clouds
    }
  }
  return pools < pass.operations.size();
}

std::size_t span_of(std::size_t points) {
  std::size_t span = 8;
  while (span < points) span *= 2;
  return span;
}

void run_together(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace,
                  const std::vector<Cloud>& clouds, std::size_t span, int category, float* logits) {
  const Pass& pass = plan.passes.front();
  const std::size_t lanes = size(kernels.lanes), width = lanes / 64, pools = first_pool(network, pass);
  const Cloud block = joined(clouds, size(network.channels), span, lanes);
  std::unique_ptr<State> state = workspace.acquire_state();
  std::unique_ptr<BlockBuffers> buffers = workspace.acquire_buffers();
  state->category = category;
  state->sizes = network.sizes(lanes);
  std::vector<Pooled> nothing;
  BlockRunner runner(network, plan, pass, kernels, block, nullptr, *state, *buffers, nothing);
  runner.start(0, lanes);
  runner.run(0, pools);

  std::vector<std::vector<std::uint64_t>> pooled;  // per pool: clouds x words
  for (std::size_t position = pools; position < pass.operations.size(); ++position) {
    const std::size_t index = size(pass.operations[position]);
    const Operation& pool = network.operations[index];
    const std::uint64_t* slices = runner.bits(pool.in[0]);
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < clouds.size(); ++i) {
      if (pool.over != Over::distinct) {
        counts.push_back(clouds[i].points);
        continue;
      }
      CodeSet& rows = state->rows[index];
      rows.reset(size(pool.inputs), kernels, span);
      rows.insert_lanes(slices, width, i * span, span, nullptr);
      counts.push_back(rows.size());
    }
    state->groups[index] = workspace.group_thresholds(index, span);
    pooled.push_back(runner.pool_clouds(position, span, counts));
  }

  const int last = network.operations.back().out[0];
  const std::size_t classes = network.classes.size();
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    for (std::size_t position = pools; position < pass.operations.size(); ++position) {
      const Operation& pool = network.operations[size(pass.operations[position])];
      const std::size_t words = words_for(size(pool.outputs));
      const auto first = pooled[position - pools].begin() + static_cast<std::ptrdiff_t>(i * words);
      state->values[size(pool.out[0])].words.assign(first, first + static_cast<std::ptrdiff_t>(words));
    }
    for (const Step& step : plan.steps) {
      if (step.type != Step::Type::vector) continue;
      evaluate(kernels, network, network.operations[size(step.index)], plan.operations[size(step.index)].vector, category,
               state->scratch, state->values);
    }
    std::copy_n(state->values[size(last)].elements.data(), classes, logits + i * classes);
  }
  workspace.release_buffers(std::move(buffers));
  workspace.release_state(std::move(state));
}

}  // namespace bipointnet
