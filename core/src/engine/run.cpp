#include "engine/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/delta.h"
#include "engine/workers.h"
#include "format/bits.h"
#include "search/search.h"

namespace bipointnet {
namespace {

void expect_finite(const float* logits, std::size_t count) {
  int broken = 0;
  for (std::size_t i = 0; i < count; ++i) broken |= !(std::abs(logits[i]) <= std::numeric_limits<float>::max());
  if (broken) throw InputError("logits that are not finite, expected a cloud with smaller coordinates");
}

}  // namespace

Run::Run(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace, const Cloud& cloud,
         int category, unsigned threads)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      workspace_(workspace),
      cloud_(cloud),
      threads_(threads),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64),
      state_(workspace.acquire_state()) {
  state_->category = category;
  state_->sizes = network.sizes(cloud.points);
  for (const std::size_t elements : state_->sizes) {
    if (elements > std::numeric_limits<std::uint32_t>::max()) {
      throw InputError("a cloud of " + std::to_string(cloud.points) + " points with " + std::to_string(elements) +
                       " neighbors, expected fewer than 2^32");
    }
  }
}

Run::~Run() { workspace_.release_state(std::move(state_)); }

void Run::execute(float* logits) {
  write_points();
  for (const Step& step : plan_.steps) {
    switch (step.type) {
      case Step::Type::vector:
        evaluate(kernels_, network_, network_.operations[size(step.index)], plan_.operations[size(step.index)].vector,
                 state_->category, state_->scratch, state_->values);
        break;
      case Step::Type::search: run_search(network_.operations[size(step.index)]); break;
      default: run_pass(plan_.passes[size(step.index)], logits);
    }
  }
  const int last = network_.operations.back().out[0];
  const std::size_t count = (network_.per_point() ? cloud_.points : 1) * network_.classes.size();
  const bool by_pass = network_.per_point() && type_of(network_, network_.operations.back()) == Step::Type::pass &&
                       !reduces(network_.operations.back().op);
  if (!by_pass) std::copy_n(state_->values[size(last)].elements.data(), count, logits);
  expect_finite(logits, count);
}

// The normalized cloud, element by element, if an operation reads it so.
void Run::write_points() {
  const int points = network_.operations.front().out[0];
  if (!plan_.written[size(points)]) return;
  const std::size_t channels = size(network_.channels);
  Storage& stored = state_->values[size(points)];
  stored.elements.resize(cloud_.points * channels);
  for (std::size_t block = 0; block < cloud_.blocks; ++block) {
    const std::size_t first = block * lanes_, count = std::min(lanes_, cloud_.points - first);
    kernels_.transpose_floats(cloud_.rows.data() + first * channels, kernels_.lanes, network_.channels,
                              static_cast<int>(count), stored.elements.data() + first * channels, network_.channels);
  }
}

void Run::run_search(const Operation& operation) {
  Storage& result = state_->values[size(operation.out[0])];
  const auto rows = [&](std::size_t operand) -> search::Rows {
    if (operand >= operation.in.size()) return {};
    const int value = operation.in[operand];
    return {state_->values[size(value)].elements.data(), state_->sizes[size(network_.values[size(value)].domain)],
            size(network_.values[size(value)].channels)};
  };
  const int domain = network_.values[size(operation.out[0])].domain;
  const auto slots = [&] {
    return state_->sizes[size(domain)] / state_->sizes[size(network_.domains[size(domain)].parent)];
  };
  const auto keep = [&](search::Groups groups) {
    result.indices = std::move(groups.indices);
    result.counts = std::move(groups.counts);
  };
  switch (operation.op) {
    case Op::farthest:
      result.indices = search::farthest_points(kernels_, rows(0), state_->sizes[size(domain)], operation.order);
      break;
    case Op::nearest:
      keep(search::nearest(kernels_, rows(0), rows(1), rows(2), slots(), size(operation.dilation), threads_));
      break;
    case Op::ball:
      keep(search::ball(kernels_, rows(0), rows(1), rows(2), slots(), operation.radius, operation.order,
                        !plan_.any_order[size(domain)], threads_));
      break;
    case Op::density:
      if (rows(0).count >= search::kMostDensities) {
        throw InputError("densities of " + std::to_string(rows(0).count) + " points, expected fewer than 2^23");
      }
      result.elements.resize(rows(0).count);
      search::density(kernels_, rows(0), operation.bandwidth, threads_, result.elements.data());
      break;
    case Op::interpolate:
      result.elements.resize(checked_product(rows(0).count, rows(2).channels));
      search::interpolate(kernels_, rows(0), rows(1), rows(2), operation.guard, operation.epsilon, threads_,
                          result.elements.data());
      break;
    default: {  // size
      const int over = network_.values[size(operation.in[0])].domain;
      const std::size_t parents = state_->sizes[size(domain)];
      result.elements.assign(parents, static_cast<float>(state_->sizes[size(over)] / parents));
      if (operation.over != Over::neighbors || network_.domains[size(over)].type != Domain::Type::groups) break;
      const Storage& index = state_->values[size(plan_.index_of[size(over)])];
      for (std::size_t i = 0; i < parents; ++i) result.elements[i] = static_cast<float>(index.counts[i]);
    }
  }
}

void Run::run_pass(const Pass& pass, float* logits) {
  const bool of_groups = network_.domains[size(pass.domain)].type == Domain::Type::groups;
  const GroupLayout layout = of_groups ? make_layout(pass) : GroupLayout{};
  prepare(pass, of_groups ? &layout : nullptr);
  const bool shares = pass.shares_codes && cloud_.blocks > 1;
  if (shares) find_shared_codes(pass);
  const std::size_t elements = shares ? shared_codes_.codes().size() : state_->sizes[size(pass.domain)];
  const std::size_t blocks = of_groups ? layout.blocks.size() : (elements + lanes_ - 1) / lanes_;
  make_room(pass, blocks);

  const std::size_t classes = network_.classes.size();
  std::vector<float> of_codes(pass.logits && shares ? elements * classes : 0);
  float* written = !pass.logits ? nullptr : shares ? of_codes.data() : logits;
  const bool in_order = pass.in_order && !of_groups;
  const bool whole = !of_groups || layout.blocks.empty() || layout.blocks.back().slot == 0;
  const std::size_t workers = in_order || !whole ? 1 : std::min<std::size_t>(threads_, blocks);
  std::vector<std::vector<Pooled>> pooled(workers);
  parallel_for(workers, workers, [&](std::size_t worker) {
    for (const int index : pass.operations) pooled[worker].emplace_back(network_.operations[size(index)]);
    const std::size_t first = blocks * worker / workers, end = blocks * (worker + 1) / workers;
    std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
    BlockRunner runner(network_, plan_, pass, kernels_, cloud_, of_groups ? &layout : nullptr, *state_, *buffers,
                       pooled[worker]);
    // Distinct codes only help if they need fewer blocks than the points.
    if (shares) {
      run_blocks(pass, first, end, elements, runner, &shared_codes_, written);
    } else if (pass.code >= 0 && !pass.keeps_elements() && end - first > 2) {
      encode(pass, first, end, runner, buffers->codes, nullptr);
      const std::size_t codes = buffers->codes.codes().size();
      run_blocks(pass, 0, (codes + lanes_ - 1) / lanes_, codes, runner, &buffers->codes, nullptr);
    } else {
      run_blocks(pass, first, end, elements, runner, nullptr, written);
    }
    workspace_.release_buffers(std::move(buffers));
  });
  for (std::size_t i = 0; shares && pass.logits && i < code_of_.size(); ++i) {
    std::copy_n(of_codes.data() + code_of_[i] * classes, classes, logits + i * classes);
  }
  for (std::size_t position = 0; !of_groups && position < pass.operations.size(); ++position) {
    const std::size_t index = size(pass.operations[position]);
    const Operation& operation = network_.operations[index];
    if (operation.op != Op::pool && operation.op != Op::bilinear_pool) continue;
    for (std::size_t w = 1; w < workers; ++w) pooled[0][position].merge(pooled[w][position]);
    const std::size_t n = state_->sizes[size(pass.domain)];
    pooled[0][position].finish(operation, n, operation.shifted && operation.op == Op::pool ? delta(n) : 0,
                               state_->values[size(operation.out[0])]);
  }
}

// Runs a pass on the blocks from `first` to `last` - 1 of its `elements`, or on distinct codes instead of elements.
// Writes logits unless `logits` is null.
void Run::run_blocks(const Pass& pass, std::size_t first, std::size_t last, std::size_t elements, BlockRunner& runner,
                     const CodeSet* codes, float* logits) {
  const int last_value = network_.operations.back().out[0], classes = static_cast<int>(network_.classes.size());
  for (std::size_t block = first; block < last; ++block) {
    const std::size_t start = block * lanes_, valid = std::min(lanes_, elements > start ? elements - start : 0);
    runner.start(block, valid);
    if (codes != nullptr && pass.encoders > 0) {
      load_codes(*codes, size(network_.values[size(pass.code)].channels), block, runner.code_bits());
    }
    runner.run(codes != nullptr ? pass.encoders : 0, pass.operations.size());
    if (logits == nullptr) continue;
    kernels_.transpose_floats(runner.floats(last_value), kernels_.lanes, classes, static_cast<int>(valid),
                              logits + start * size(classes), classes);
  }
}

void Run::load_codes(const CodeSet& codes, std::size_t channels, std::size_t block, std::uint64_t* slices) const {
  const std::vector<std::uint64_t>& all = codes.codes();
  const std::size_t start = block * lanes_;
  std::uint64_t square[64];
  for (std::size_t word = 0; word < width_; ++word) {
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t number = start + word * 64 + i;
      square[i] = number < all.size() ? all[number] : 0;
    }
    transpose(square);
    for (std::size_t k = 0; k < channels; ++k) slices[k * width_ + word] = square[k];
  }
}

// Collects the distinct codes of the points of some blocks and, if `code_of` is given, the number of the code of each
// point.
void Run::encode(const Pass& pass, std::size_t first, std::size_t last, BlockRunner& runner, CodeSet& codes,
                 std::vector<std::uint32_t>* code_of) const {
  const std::size_t channels = size(network_.values[size(pass.code)].channels);
  codes.reset(std::min(last * lanes_, cloud_.points) - first * lanes_);
  std::uint64_t square[64];
  for (std::size_t block = first; block < last; ++block) {
    runner.start(block, std::min(lanes_, cloud_.points - block * lanes_));
    runner.run(0, pass.encoders);
    const std::uint64_t* bits = runner.bits(pass.code);
    for (std::size_t word = 0; word < width_; ++word) {
      const std::size_t start = block * lanes_ + word * 64;
      if (start >= cloud_.points) break;
      for (std::size_t k = 0; k < 64; ++k) square[k] = k < channels ? bits[k * width_ + word] : 0;
      transpose(square);
      for (std::size_t i = 0; i < std::min<std::size_t>(64, cloud_.points - start); ++i) {
        const std::uint32_t number = codes.insert(square[i]);
        if (code_of != nullptr) code_of->push_back(number);
      }
    }
  }
}

// The first pass that shares codes collects them for all passes.
void Run::find_shared_codes(const Pass& pass) {
  if (!code_of_.empty()) return;
  code_of_.reserve(cloud_.points);
  std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
  std::vector<Pooled> nothing;
  make_room(pass, cloud_.blocks);
  BlockRunner runner(network_, plan_, pass, kernels_, cloud_, nullptr, *state_, *buffers, nothing);
  encode(pass, 0, cloud_.blocks, runner, shared_codes_, &code_of_);
  workspace_.release_buffers(std::move(buffers));
}

}  // namespace bipointnet
