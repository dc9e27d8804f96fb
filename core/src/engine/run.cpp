#include "engine/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/delta.h"
#include "format/bits.h"

namespace bipointnet {

void expect_finite(const float* logits, std::size_t count) {
  int broken = 0;
  for (std::size_t i = 0; i < count; ++i) broken |= !(std::abs(logits[i]) <= std::numeric_limits<float>::max());
  if (broken) throw NotFinite("logits that are not finite, expected a cloud with smaller coordinates");
}

Run::Run(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace, Cloud cloud,
         int category, unsigned threads)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      workspace_(workspace),
      cloud_(std::move(cloud)),
      threads_(threads),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64),
      searches_(kernels, threads),
      state_(workspace.acquire_state()) {
  state_->category = category;
  state_->sizes = network.sizes(cloud_.points);
  for (const std::size_t elements : state_->sizes) {
    if (elements > std::numeric_limits<std::uint32_t>::max()) {
      throw InputError("a cloud of " + std::to_string(cloud_.points) + " points with " + std::to_string(elements) +
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

// The normalized cloud, element by element, if an operation reads it so; in the memory of its blocks if none reads these.
void Run::write_points() {
  const int points = network_.operations.front().out[0];
  if (!plan_.written[size(points)]) return;
  const auto reads_blocks = [](const Pass& pass) { return contains(pass.operations, 0); };  // points
  const bool in_place = std::none_of(plan_.passes.begin(), plan_.passes.end(), reads_blocks);
  const std::size_t channels = size(network_.channels);
  Aligned<float>& elements = state_->values[size(points)].elements;
  if (in_place) elements = std::move(cloud_.rows);
  if (!in_place) elements.resize(cloud_.points * channels);
  Aligned<float> copy(in_place ? channels * lanes_ : 0);
  for (std::size_t block = 0; block < cloud_.blocks; ++block) {
    const std::size_t first = block * lanes_, count = std::min(lanes_, cloud_.points - first);
    float* to = elements.data() + first * channels;
    std::copy_n(to, copy.size(), copy.data());
    kernels_.transpose_floats(in_place ? copy.data() : cloud_.rows.data() + first * channels, kernels_.lanes,
                              network_.channels, static_cast<int>(count), to, network_.channels);
  }
  elements.resize(cloud_.points * channels);
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
      result.indices = searches_.farthest_points(rows(0), state_->sizes[size(domain)], operation.order);
      break;
    case Op::nearest:
      keep(searches_.nearest(rows(0), rows(1), rows(2), slots(), size(operation.dilation)));
      break;
    case Op::ball:
      keep(searches_.ball(rows(0), rows(1), rows(2), slots(), operation.radius, operation.order,
                          !plan_.any_order[size(domain)]));
      break;
    case Op::density:
      if (rows(0).count >= search::Searches::kMostDensities) {
        throw InputError("densities of " + std::to_string(rows(0).count) + " points, expected fewer than 2^23");
      }
      result.elements.resize(rows(0).count);
      searches_.density(rows(0), operation.bandwidth, result.elements.data());
      break;
    case Op::interpolate:
      result.elements.resize(checked_product(rows(0).count, rows(2).channels));
      searches_.interpolate(rows(0), rows(1), rows(2), operation.guard, operation.epsilon, result.elements.data());
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
  const CodeSet* codes = find_codes(pass);
  const std::size_t elements = codes != nullptr ? codes->size() : state_->sizes[size(pass.domain)];
  const std::size_t blocks = of_groups ? layout.blocks.size() : blocks_for(elements);
  make_room(pass, blocks);
  for (std::size_t i = pass.before_pools(); i < pass.operations.size(); ++i) {
    const std::size_t index = size(pass.operations[i]);
    state_->rows[index].reset(size(network_.operations[index].inputs), kernels_, elements);
  }

  const std::size_t classes = network_.classes.size();
  std::vector<float> of_codes(pass.logits && codes != nullptr ? elements * classes : 0);
  float* written = !pass.logits ? nullptr : codes != nullptr ? of_codes.data() : logits;
  const bool in_order = pass.in_order && !of_groups;
  const bool whole = !of_groups || layout.blocks.empty() || layout.blocks.back().slot == 0;
  const std::size_t workers = in_order || !whole ? 1 : std::min<std::size_t>(threads_, blocks);
  std::vector<std::vector<Pooled>> pooled(workers);
  parallel_for(workers, workers, [&](std::size_t worker) {
    for (const int index : pass.operations) pooled[worker].emplace_back(network_.operations[size(index)]);
    std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
    BlockRunner runner(network_, plan_, pass, kernels_, cloud_, of_groups ? &layout : nullptr, *state_, *buffers,
                       pooled[worker]);
    run_blocks(pass, blocks * worker / workers, blocks * (worker + 1) / workers, elements, runner, codes, written,
               workers > 1 ? &buffers->code_rows : nullptr);
    if (blocks == 1 && pass.code_pools > 0) {
      set_thresholds(pass);
      for (std::size_t position = pass.before_pools(); position < pass.operations.size(); ++position) {
        const CodeSet& rows = state_->rows[size(pass.operations[position])];
        if (runner.few(rows.size())) {
          runner.pool_codes(position, rows, 0);
        } else {
          runner.run(position, position + 1);
        }
      }
    }
    workspace_.release_buffers(std::move(buffers));
  });
  if (blocks > 1 && pass.code_pools > 0) pool_codes(pass, pooled);
  for (std::size_t i = 0; codes != nullptr && pass.logits && i < code_of_.size(); ++i) {
    std::copy_n(of_codes.data() + code_of_[i] * classes, classes, logits + i * classes);
  }
  for (std::size_t position = 0; !of_groups && position < pass.operations.size(); ++position) {
    const std::size_t index = size(pass.operations[position]);
    const Operation& operation = network_.operations[index];
    if (operation.op != Op::pool && operation.op != Op::bilinear_pool) continue;
    for (std::size_t w = 1; w < workers; ++w) pooled[0][position].merge(pooled[w][position]);
    const std::size_t n = state_->sizes[size(pass.domain)];
    double shift = 0;
    if (operation.op == Op::pool && operation.shifted) {
      shift = delta(operation.over == Over::distinct ? state_->distinct[index].front() : n);
    }
    pooled[0][position].finish(operation, n, shift, state_->values[size(operation.out[0])]);
  }
}

// The thresholds of the pools of codes, for the number of distinct rows that were found.
void Run::set_thresholds(const Pass& pass) {
  for (std::size_t i = pass.before_pools(); i < pass.operations.size(); ++i) {
    const std::size_t index = size(pass.operations[i]);
    state_->pools[index] = workspace_.new_thresholds(index, state_->rows[index].size());
  }
}

// Runs the pools of codes on the distinct rows.
void Run::pool_codes(const Pass& pass, std::vector<std::vector<Pooled>>& pooled) {
  set_thresholds(pass);
  for (std::size_t position = pass.before_pools(); position < pass.operations.size(); ++position) {
    const CodeSet& rows = state_->rows[size(pass.operations[position])];
    const std::size_t blocks = blocks_for(rows.size()), workers = std::min(pooled.size(), blocks);
    parallel_for(workers, workers, [&](std::size_t worker) {
      std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
      BlockRunner runner(network_, plan_, pass, kernels_, cloud_, nullptr, *state_, *buffers, pooled[worker]);
      for (std::size_t block = blocks * worker / workers; block < blocks * (worker + 1) / workers; ++block) {
        runner.pool_codes(position, rows, block * lanes_);
      }
      workspace_.release_buffers(std::move(buffers));
    });
  }
}

// Runs a pass on the blocks from `first` to `last` - 1 of its `elements`, or on distinct codes instead of elements, and
// collects the rows that its pools of codes read: in `own`, which is merged at the end, if other threads do the same.
// Writes logits unless `logits` is null.
void Run::run_blocks(const Pass& pass, std::size_t first, std::size_t last, std::size_t elements, BlockRunner& runner,
                     const CodeSet* codes, float* logits, std::vector<CodeSet>* own) {
  const int last_value = network_.operations.back().out[0], classes = static_cast<int>(network_.classes.size());
  const auto each_pool = [&](const auto& work) {
    for (std::size_t i = pass.before_pools(); i < pass.operations.size(); ++i) work(size(pass.operations[i]));
  };
  if (own != nullptr) {
    own->resize(network_.operations.size());
    each_pool([&](std::size_t index) {
      (*own)[index].reset(size(network_.operations[index].inputs), kernels_, (last - first) * lanes_);
    });
  }
  for (std::size_t block = first; block < last; ++block) {
    const std::size_t start = block * lanes_, valid = std::min(lanes_, elements > start ? elements - start : 0);
    runner.start(block, valid);
    if (codes != nullptr && pass.encoders > 0) codes->load(start, width_, runner.code_bits());
    runner.run(codes != nullptr ? pass.encoders : 0, pass.before_pools());
    each_pool([&](std::size_t index) {
      CodeSet& rows = own != nullptr ? (*own)[index] : state_->rows[index];
      rows.insert_lanes(runner.bits(network_.operations[index].in[0]), width_, 0, valid, nullptr);
    });
    if (logits == nullptr) continue;
    kernels_.transpose_floats(runner.floats(last_value), kernels_.lanes, classes, static_cast<int>(valid),
                              logits + start * size(classes), classes);
  }
  if (own == nullptr) return;
  const Lock lock(mutex_);
  each_pool([&](std::size_t index) { state_->rows[index].merge((*own)[index]); });
}

// The distinct codes of the points, if the pass runs on them. Passes that keep values per point share their codes, which
// the first such pass collects, with the number of the code of each point.
const CodeSet* Run::find_codes(const Pass& pass) {
  if (pass.code < 0 || cloud_.blocks < 3) return nullptr;
  if (pass.shares_codes) {
    if (code_of_.empty()) {
      code_of_.reserve(cloud_.points);
      make_room(pass, cloud_.blocks);
      encode(pass, shared_codes_, &code_of_);
    }
    return &shared_codes_;
  }
  if (pass.keeps_elements()) return nullptr;
  encode(pass, state_->codes, nullptr);
  return &state_->codes;
}

// Collects the distinct codes of the points and, if `code_of` is given, the number of the code of each point.
void Run::encode(const Pass& pass, CodeSet& codes, std::vector<std::uint32_t>* code_of) {
  const std::size_t channels = size(network_.values[size(pass.code)].channels), blocks = cloud_.blocks;
  const std::size_t workers = code_of != nullptr ? 1 : std::min<std::size_t>(threads_, blocks);
  codes.reset(channels, kernels_, cloud_.points);
  parallel_for(workers, workers, [&](std::size_t worker) {
    std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
    std::vector<Pooled> nothing;
    BlockRunner runner(network_, plan_, pass, kernels_, cloud_, nullptr, *state_, *buffers, nothing);
    CodeSet& own = workers > 1 ? buffers->codes : codes;
    if (workers > 1) own.reset(channels, kernels_, cloud_.points / workers);
    for (std::size_t block = blocks * worker / workers; block < blocks * (worker + 1) / workers; ++block) {
      const std::size_t valid = std::min(lanes_, cloud_.points - block * lanes_);
      runner.start(block, valid);
      runner.run(0, pass.encoders);
      own.insert_lanes(runner.bits(pass.code), width_, 0, valid, code_of);
    }
    if (workers > 1) {
      const Lock lock(mutex_);
      codes.merge(own);
    }
    workspace_.release_buffers(std::move(buffers));
  });
}

}  // namespace bipointnet
