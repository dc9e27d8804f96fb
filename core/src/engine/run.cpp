#include "engine/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "engine/delta.h"
#include "engine/workers.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

constexpr std::size_t kTransposedPoints = 16;

// Transposes rows of `lanes` floats, one row per class, to one row per point for the first `points` points.
void transpose_rows(const float* rows, std::size_t classes, std::size_t points, std::size_t lanes, float* logits) {
  for (std::size_t start = 0; start < points; start += kTransposedPoints) {
    const std::size_t end = std::min(start + kTransposedPoints, points);
    for (std::size_t c = 0; c < classes; ++c) {
      for (std::size_t p = start; p < end; ++p) logits[p * classes + c] = rows[c * lanes + p];
    }
  }
}

void expect_finite(const float* logits, std::size_t count) {
  int broken = 0;
  for (std::size_t i = 0; i < count; ++i) broken |= !(std::abs(logits[i]) <= std::numeric_limits<float>::max());
  if (broken) throw InputError("logits that are not finite, expected a cloud with smaller coordinates");
}

}  // namespace

Run::Run(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace, const Cloud& cloud,
         int category, unsigned threads, std::vector<Value>* trace)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      workspace_(workspace),
      cloud_(cloud),
      threads_(threads),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64) {
  state_.points = cloud.points;
  state_.category = category;
  state_.kept.resize(network.kept.size());
  state_.kept_slices = workspace.acquire_slices();
  state_.pools = workspace.thresholds(cloud.points);
  state_.trace = trace;
  shares_codes_ = trace == nullptr && cloud.blocks > 1;
}

Run::~Run() { workspace_.release_slices(std::move(state_.kept_slices)); }

void Run::execute(float* logits) {
  auto pass = plan_.passes.begin();
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    if (pass != plan_.passes.end() && pass->first == i) {
      run_pass(*pass, logits);
      i = pass->last;
      ++pass;
      if (network_.per_point() && pass == plan_.passes.end()) return;
    } else {
      run_vector_op(i);
    }
    record_vector(i);
  }
  expect_finite(state_.vector.floats.data(), state_.vector.floats.size());
  std::copy(state_.vector.floats.begin(), state_.vector.floats.end(), logits);
}

void Run::run_pass(const Pass& pass, float* logits) {
  const Layer& last = network_.layers[pass.last];
  const bool shares = shares_codes_ && pass.shares_codes;
  if (shares) find_shared_codes(pass);
  const std::size_t points = shares ? shared_codes_.codes().size() : cloud_.points;
  const std::size_t blocks = (points + lanes_ - 1) / lanes_;
  // All passes that store something have the same blocks.
  if (pass.stores_points) {
    const std::size_t words = checked_product(blocks, plan_.kept_width * width_);
    state_.kept_slices.resize(std::max(state_.kept_slices.size(), words));
  }
  if (network_.layers[pass.first].op == Op::join) count_joined_vectors(pass.first);

  const bool ends = pass.last + 1 == network_.layers.size() && network_.per_point();
  std::vector<float> of_codes(ends && shares ? points * network_.classes.size() : 0);
  float* written = !ends ? nullptr : shares ? of_codes.data() : logits;
  const bool in_order = state_.trace != nullptr || (last.op == Op::pool && last.pool == Pool::mean);
  const std::size_t workers = in_order ? 1 : std::min<std::size_t>(threads_, blocks);
  std::vector<Pooled> pooled(workers, Pooled(last));
  parallel_for(workers, workers, [&](std::size_t worker) {
    const std::size_t first = blocks * worker / workers, end = blocks * (worker + 1) / workers;
    std::unique_ptr<BlockBuffers> buffers = workspace_.acquire_buffers();
    BlockRunner runner(network_, plan_, kernels_, state_, *buffers, pooled[worker]);
    // Distinct codes only help if they need fewer blocks than the points.
    const bool distinct = !pass.stores_points && pass.code_op != 0 && state_.trace == nullptr && end - first > 2;
    if (shares) {
      run_codes(pass, shared_codes_, first, end, *buffers, runner, written);
    } else if (distinct) {
      encode(pass, first, end, *buffers, runner, buffers->codes, nullptr);
      const std::size_t codes = buffers->codes.codes().size();
      run_codes(pass, buffers->codes, 0, (codes + lanes_ - 1) / lanes_, *buffers, runner, nullptr);
    } else {
      run_cloud(pass, first, end, *buffers, runner, written);
    }
    workspace_.release_buffers(std::move(buffers));
  });
  if (ends) {
    const std::size_t classes = network_.classes.size();
    expect_finite(written, points * classes);
    for (std::size_t i = 0; shares && i < code_of_.size(); ++i) {
      std::copy_n(of_codes.data() + code_of_[i] * classes, classes, logits + i * classes);
    }
    return;
  }
  for (std::size_t w = 1; w < workers; ++w) pooled.front().merge(pooled[w]);
  pooled.front().finish(last, state_.points, state_.vector);
}

// Runs a pass on the blocks from `first` to `last` - 1 of the cloud. Writes logits unless `logits` is null.
void Run::run_cloud(const Pass& pass, std::size_t first, std::size_t last, BlockBuffers& buffers, BlockRunner& runner,
                    float* logits) {
  const std::size_t classes = network_.classes.size();
  for (std::size_t block = first; block < last; ++block) {
    const std::size_t valid = std::min(lanes_, cloud_.points - block * lanes_);
    load_cloud(block, buffers);
    runner.run(pass.first, pass.last, block, valid);
    if (logits != nullptr)
      transpose_rows(buffers.floats.data(), classes, valid, lanes_, logits + block * lanes_ * classes);
  }
}

// The same on distinct codes instead of points.
void Run::run_codes(const Pass& pass, const CodeSet& codes, std::size_t first, std::size_t last, BlockBuffers& buffers,
                    BlockRunner& runner, float* logits) {
  const std::size_t classes = network_.classes.size(), count = codes.codes().size();
  const bool joins = network_.layers[pass.first].op == Op::join;
  for (std::size_t block = first; block < last; ++block) {
    const std::size_t valid = std::min(lanes_, count - block * lanes_);
    if (!joins) load_codes(codes, size(network_.layers[pass.code_op].outputs), block, buffers);
    runner.run(joins ? pass.first : pass.code_op + 1, pass.last, block, valid);
    if (logits != nullptr)
      transpose_rows(buffers.floats.data(), classes, valid, lanes_, logits + block * lanes_ * classes);
  }
}

void Run::load_cloud(std::size_t block, BlockBuffers& buffers) const {
  const std::size_t numbers = lanes_ * size(network_.channels);
  std::copy_n(cloud_.rows.data() + block * numbers, numbers, buffers.floats.data());
}

void Run::load_codes(const CodeSet& codes, std::size_t channels, std::size_t block, BlockBuffers& buffers) const {
  const std::vector<std::uint64_t>& all = codes.codes();
  const std::size_t start = block * lanes_;
  std::uint64_t square[64];
  for (std::size_t word = 0; word < width_; ++word) {
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t number = start + word * 64 + i;
      square[i] = number < all.size() ? all[number] : 0;
    }
    transpose(square);
    for (std::size_t k = 0; k < channels; ++k) buffers.bits[k * width_ + word] = square[k];
  }
}

// Collects the distinct codes of the points of some blocks and, if `code_of` is given, the number of the code of each
// point.
void Run::encode(const Pass& pass, std::size_t first, std::size_t last, BlockBuffers& buffers, BlockRunner& runner,
                 CodeSet& codes, std::vector<std::uint32_t>* code_of) const {
  const std::size_t channels = size(network_.layers[pass.code_op].outputs);
  codes.reset(std::min(last * lanes_, cloud_.points) - first * lanes_);
  std::uint64_t square[64];
  for (std::size_t block = first; block < last; ++block) {
    load_cloud(block, buffers);
    runner.run(pass.first, pass.code_op, block, lanes_);
    for (std::size_t word = 0; word < width_; ++word) {
      const std::size_t start = block * lanes_ + word * 64;
      if (start >= cloud_.points) break;
      for (std::size_t k = 0; k < 64; ++k) square[k] = k < channels ? runner.bits()[k * width_ + word] : 0;
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
  Pooled nothing(network_.layers[pass.code_op]);
  BlockRunner runner(network_, plan_, kernels_, state_, *buffers, nothing);
  encode(pass, 0, cloud_.blocks, *buffers, runner, shared_codes_, &code_of_);
  workspace_.release_buffers(std::move(buffers));
}

// Kept vectors are the same at all points. So a layer right after `join` counts its agreements with them once per cloud
// and subtracts them from its thresholds. The rest of the threshold remains for the bits of a point.
void Run::count_joined_vectors(std::size_t join) {
  const JoinedVectors& joined = plan_.layers[join + 1].joined;
  if (joined.inputs == 0) return;
  const Layer& layer = network_.layers[join + 1];
  std::vector<std::uint64_t> bits(words_for(size(joined.inputs)));
  std::size_t column = 0;
  for (const int number : network_.layers[join].joined) {
    const Kept& kept = network_.kept[size(number)];
    for (std::size_t k = 0; !kept.on_points && k < size(kept.width); ++k, ++column) {
      bits[column / 64] |= std::uint64_t{get_bit(state_.kept[size(number)].data(), k)} << column % 64;
    }
  }
  std::vector<int> threshold(size(layer.outputs + kTile));
  kernels_.agreements(bits.data(), joined.tiles.data(), joined.inputs, layer.outputs, threshold.data());
  threshold.resize(size(layer.outputs));
  for (std::size_t m = 0; m < threshold.size(); ++m) threshold[m] = layer.threshold[m] - threshold[m];
  state_.joined = plan_.layers[join + 1].bitsliced->thresholds(threshold);
}

void Run::run_vector_op(std::size_t index) {
  const Layer& layer = network_.layers[index];
  Vector& vector = state_.vector;
  switch (layer.op) {
    case Op::shift: {
      const float shift = static_cast<float>(delta(state_.points));
      for (float& number : vector.floats) number -= shift;
      break;
    }
    case Op::matrix: state_.matrices.push_back(make_matrix(size(layer.outputs), vector)); break;
    case Op::keep: state_.kept[size(layer.kept)] = vector.bits; break;
    case Op::category:
      vector.bits.assign(words_for(size(layer.outputs)), 0);
      vector.bits[size(state_.category) / 64] |= std::uint64_t{1} << size(state_.category) % 64;
      break;
    default: evaluate(kernels_, layer, plan_.layers[index].vector, vector);
  }
}

void Run::record_vector(std::size_t index) const {
  if (state_.trace == nullptr) return;
  const Layer& layer = network_.layers[index];
  Value& value = (*state_.trace)[index];
  value.columns = size(layer.outputs);
  value.bits = layer.op != Op::matrix && !plan_.layers[index].writes_floats;
  if (layer.op == Op::matrix) {
    value.rows = value.columns;
    value.numbers.assign(state_.matrices.back().rows.begin(), state_.matrices.back().rows.end());
  } else if (value.bits) {
    for (std::size_t k = 0; k < value.columns; ++k) value.numbers.push_back(get_bit(state_.vector.bits.data(), k));
  } else {
    value.numbers.assign(state_.vector.floats.begin(), state_.vector.floats.end());
  }
}

}  // namespace bipointnet
