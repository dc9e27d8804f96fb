// Runs the operations of a network. The arithmetic is in the kernels.
//
// A program is cut into passes over the points, each from `points` to the pool that ends it, and vector operations
// between them. A pass goes through the cloud block by block, all of its operations on one block before the next, so
// that nothing of the size of the cloud is ever stored but the cloud and, in large ones, the distinct codes of its points.
// A pass in which a 1-bit layer leaves floats at every point goes through it point by point instead.
#include "model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cloud.h"
#include "codes.h"
#include "delta.h"
#include "vectors.h"
#include "workers.h"

namespace bipointnet {
namespace {

constexpr std::size_t kThresholdsKept = 8;
constexpr std::size_t kScratchesKept = 64;
constexpr std::size_t kCodesKept = std::size_t{1} << 17;
constexpr std::size_t kMeanGroup = 64;

bool get_bit(const std::uint64_t* words, std::size_t index) { return words[index / 64] >> index % 64 & 1; }

int activation_code(Activation activation) {
  return activation == Activation::relu ? 1 : activation == Activation::hardtanh ? 2 : 0;
}

bool leaves_bits(Op op) {
  return op == Op::sign || op == Op::compare || op == Op::sign_scaled || op == Op::bilinear || op == Op::bilinear_pool;
}

void record(const Layer& layer, const Vector& vector, Value& value) {
  value.columns = static_cast<std::size_t>(layer.outputs);
  value.bits = leaves_bits(layer.op);
  if (!value.bits) value.numbers.insert(value.numbers.end(), vector.floats.begin(), vector.floats.end());
  for (std::size_t m = 0; value.bits && m < value.columns; ++m) {
    value.numbers.push_back(get_bit(vector.bits.data(), m));
  }
}

}  // namespace

// What is worked out of a layer when the model is loaded.
struct Model::Prepared {
  std::unique_ptr<SlicedLayer> sliced;  // bilinear on points, and pools of bits by their maximum
  Starts starts;                        // bilinear on points
  std::vector<float> bound;             // dense on points: -bias, what the sum is compared with
  VectorLayer vector;                   // on vectors, and in passes point by point
};

struct Model::Pass {
  std::size_t first;       // the operation `points`
  std::size_t last;        // the pool
  std::size_t coded;       // the operation whose bits may be made distinct, or 0
  bool pointwise = false;  // whether it goes point by point
};

struct Model::State {
  std::size_t points = 0;
  Vector vector;
  std::vector<Matrix> matrices;
  std::shared_ptr<const std::vector<Starts>> pools;  // of this number of points, by layer
  std::vector<Value>* trace = nullptr;
};

struct Model::Scratch {
  Aligned<float> floats, more_floats;
  Aligned<std::uint64_t> bits, table, mask;
  CodeSet codes;
  Vector vector;
};

struct Model::Pooled {
  std::vector<std::uint64_t> fired;  // max of bits
  std::vector<std::int64_t> ones;    // mean of bits: how often each input is 1
  std::vector<float> largest;        // max of floats
  std::vector<double> sums, group;   // mean of floats
  std::size_t in_group = 0;

  template <class Number>
  void add_to_mean(const Number& number) {
    for (std::size_t k = 0; k < group.size(); ++k) group[k] += double{number(k)};
    if (++in_group == kMeanGroup) {
      in_group = 0;
      for (std::size_t k = 0; k < group.size(); ++k) sums[k] += group[k];
      group.assign(group.size(), 0);
    }
  }
};

Model::Model(Network network, const Kernels& kernels) : network_(std::move(network)), kernels_(kernels) {
  prepared_.resize(network_.layers.size());
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    Prepared& prepared = prepared_[i];
    if (layer.on_points) widest_ = std::max(widest_, static_cast<std::size_t>(layer.inputs));
    const bool pools = layer.op == Op::bilinear_pool && layer.pool == Pool::max;
    if (layer.on_points && (layer.op == Op::bilinear || pools)) {
      prepared.sliced = std::make_unique<SlicedLayer>(layer.bits, layer.inputs, layer.outputs);
    }
    if (layer.on_points && layer.op == Op::bilinear) {
      prepared.starts = prepared.sliced->starts({layer.threshold.begin(), layer.threshold.end()});
    }
    if (layer.op == Op::dense && layer.on_points) {
      for (const float bias : layer.bias) prepared.bound.push_back(-bias);
    }
  }
  plan_passes();
  auto pass = passes_.begin();
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    while (pass != passes_.end() && pass->last < i) ++pass;
    const bool in_blocks = pass != passes_.end() && pass->first <= i && !pass->pointwise;
    if (!in_blocks) prepared_[i].vector = prepare_vector_layer(network_.layers[i]);
  }
  check_golden();
}

Model::~Model() = default;

void Model::plan_passes() {
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    if (layer.op == Op::points) passes_.push_back({i, i, 0});
    if (!layer.on_points) continue;
    const bool codes = (layer.op == Op::sign || layer.op == Op::compare) && layer.outputs <= 64;
    if (codes && passes_.back().coded == 0) passes_.back().coded = i;
    if (layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled) passes_.back().pointwise = true;
    if (layer.op == Op::bilinear_pool || layer.op == Op::pool) {
      passes_.back().last = i;
      if (layer.op == Op::pool || layer.pool == Pool::mean) passes_.back().coded = 0;
    }
  }
}

void Model::check_golden() const {
  const std::size_t count = static_cast<std::size_t>(network_.golden_points * network_.channels);
  std::vector<float> numbers(count), logits(network_.classes.size());
  std::uint64_t state = network_.golden_seed;
  for (float& number : numbers) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    number = static_cast<float>(static_cast<double>(z >> 40) * 0x1p-23 - 1.0);
  }
  run(numbers.data(), static_cast<std::size_t>(network_.golden_points), false, 1, logits.data(), nullptr);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(std::abs(double{logits[i]} - double{network_.golden[i]}) <= network_.golden_tolerance)) {
      throw FormatError("golden: logit " + std::to_string(i) + " is " + std::to_string(logits[i]) + ", expected " +
                        std::to_string(network_.golden[i]) + " within " + std::to_string(network_.golden_tolerance));
    }
  }
}

// Where the pools start counting, by layer. A robot's scans have another size each time, so this is kept cheap.
std::shared_ptr<const std::vector<Starts>> Model::thresholds(std::size_t points) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : known_thresholds_) {
      if (known.first == points) return known.second;
    }
  }
  auto made = std::make_shared<std::vector<Starts>>(network_.layers.size());
  const double shift = delta(points);
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const Layer& layer = network_.layers[i];
    if (layer.op != Op::bilinear_pool || layer.pool != Pool::max) continue;
    std::vector<int> threshold;
    threshold.reserve(layer.line.size() / 2);
    for (std::size_t m = 0; m < layer.line.size() / 2; ++m) {
      const double bound = std::ceil(layer.line[2 * m] + layer.line[2 * m + 1] * (layer.shifted ? shift : 0.0));
      threshold.push_back(static_cast<int>(std::min(std::max(bound, 0.0), layer.inputs + 1.0)));
    }
    (*made)[i] = prepared_[i].sliced->starts(threshold);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_thresholds_.size() == kThresholdsKept) known_thresholds_.erase(known_thresholds_.begin());
  known_thresholds_.emplace_back(points, made);
  return made;
}

std::unique_ptr<Model::Scratch> Model::take_scratch() const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Scratch> scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes);
  auto scratch = std::make_unique<Scratch>();
  scratch->floats.resize(widest_ * lanes);
  scratch->more_floats.resize(widest_ * lanes);
  scratch->bits.resize(widest_ * lanes / 64);
  scratch->table.resize((widest_ + 1) / 2 * kEntries * lanes / 64);
  scratch->mask.resize(lanes / 64);
  return scratch;
}

void Model::give_back(std::unique_ptr<Scratch> scratch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < kScratchesKept && scratch->codes.room() <= kCodesKept) idle_.push_back(std::move(scratch));
}

void Model::predict(const float* numbers, std::size_t clouds, std::size_t points, bool raw, unsigned threads,
                    float* logits) const {
  check_size(points);
  if (threads == 0) throw InputError("0 threads, expected at least 1");
  const std::size_t size = points * static_cast<std::size_t>(network_.channels), classes = network_.classes.size();
  if (clouds == 1) return run(numbers, points, raw, threads, logits, nullptr);
  share(clouds, std::min<std::size_t>(threads, clouds), [&](std::size_t i) {
    run(numbers + i * size, points, raw, 1, logits + i * classes, nullptr);
  });
}

std::vector<Value> Model::trace(const float* numbers, std::size_t points, bool raw) const {
  check_size(points);
  std::vector<Value> values(network_.layers.size());
  std::vector<float> logits(network_.classes.size());
  run(numbers, points, raw, 1, logits.data(), &values);
  return values;
}

void Model::run(const float* numbers, std::size_t points, bool raw, unsigned threads, float* logits,
                std::vector<Value>* trace) const {
  const std::size_t channels = static_cast<std::size_t>(network_.channels);
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes);
  Cloud cloud = arrange(numbers, points, channels, lanes);
  if (network_.normalize && !raw) normalize(cloud, channels, lanes);
  State state;
  state.points = points;
  state.pools = thresholds(points);
  state.trace = trace;
  auto pass = passes_.begin();
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    if (pass != passes_.end() && pass->first == i) {
      run_pass(*pass, cloud, state, threads);
      i = pass->last;
      ++pass;
    } else {
      run_on_cloud(i, state);
    }
    if (trace == nullptr) continue;
    Value& value = (*trace)[i];
    record(network_.layers[i], state.vector, value);
    if (network_.layers[i].op == Op::matrix) {
      value.rows = value.columns;
      value.numbers.assign(state.matrices.back().rows.begin(), state.matrices.back().rows.end());
    }
  }
  for (const float logit : state.vector.floats) {
    if (!std::isfinite(logit)) throw InputError("coordinates so large that the logits are not finite, expected smaller");
  }
  std::copy(state.vector.floats.begin(), state.vector.floats.end(), logits);
}

void Model::run_pass(const Pass& pass, const Cloud& cloud, State& state, unsigned threads) const {
  const Layer& last = network_.layers[pass.last];
  const std::size_t inputs = static_cast<std::size_t>(last.inputs), outputs = static_cast<std::size_t>(last.outputs);
  const bool in_order = state.trace != nullptr || (last.op == Op::pool && last.pool == Pool::mean);
  const std::size_t workers = in_order ? 1 : std::min<std::size_t>(threads, cloud.blocks);
  std::vector<Pooled> shares(workers);
  share(workers, workers, [&](std::size_t worker) {
    const std::size_t first = cloud.blocks * worker / workers, end = cloud.blocks * (worker + 1) / workers;
    Pooled& pooled = shares[worker];
    pooled.fired.assign(words_for(outputs), 0);
    pooled.ones.assign(inputs, 0);
    if (last.op == Op::pool) {
      pooled.largest.assign(outputs, -std::numeric_limits<float>::infinity());
      pooled.sums.assign(outputs, 0);
      pooled.group.assign(outputs, 0);
    }
    std::unique_ptr<Scratch> scratch = take_scratch();
    // Fewer distinct points help only where they make fewer blocks.
    const bool distinct = pass.coded != 0 && state.trace == nullptr && end - first > 2;
    const auto run = pass.pointwise ? &Model::run_points : distinct ? &Model::run_distinct : &Model::run_blocks;
    (this->*run)(pass, cloud, state, first, end, *scratch, pooled);
    give_back(std::move(scratch));
  });
  Pooled& all = shares.front();
  for (std::size_t w = 1; w < workers; ++w) {
    for (std::size_t i = 0; i < all.fired.size(); ++i) all.fired[i] |= shares[w].fired[i];
    for (std::size_t i = 0; i < inputs; ++i) all.ones[i] += shares[w].ones[i];
    for (std::size_t i = 0; i < all.largest.size(); ++i) all.largest[i] = std::max(all.largest[i], shares[w].largest[i]);
  }
  if (last.op == Op::pool) {
    state.vector.floats.assign(all.largest.begin(), all.largest.end());
    if (last.pool == Pool::mean) {
      for (std::size_t i = 0; i < outputs; ++i) {
        state.vector.floats[i] = static_cast<float>((all.sums[i] + all.group[i]) / static_cast<double>(state.points));
      }
    }
    return;
  }
  state.vector.bits = all.fired;
  if (last.pool == Pool::mean) {
    // The agreements of all points with a row: an input that is 1 at `ones` points agrees there, or at all others.
    const std::int64_t points = static_cast<std::int64_t>(state.points);
    for (std::size_t m = 0; m < outputs; ++m) {
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < inputs; ++k) {
        sum += get_bit(last.bits.data() + m * words_for(inputs), k) ? all.ones[k] : points - all.ones[k];
      }
      const double bound = std::ceil(static_cast<double>(points) * last.line[2 * m]);
      if (static_cast<double>(sum) >= bound) state.vector.bits[m / 64] |= std::uint64_t{1} << m % 64;
    }
  }
}

void Model::run_blocks(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                       Scratch& scratch, Pooled& pooled) const {
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes);
  const std::size_t size = lanes * static_cast<std::size_t>(network_.channels);
  for (std::size_t block = first; block < last; ++block) {
    std::copy_n(cloud.rows.data() + block * size, size, scratch.floats.data());
    run_block(pass.first, pass.last, state, std::min(lanes, cloud.points - block * lanes), scratch, pooled);
  }
}

void Model::run_distinct(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                         Scratch& scratch, Pooled& pooled) const {
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes), width = lanes / 64;
  const std::size_t size = lanes * static_cast<std::size_t>(network_.channels);
  const std::size_t channels = static_cast<std::size_t>(network_.layers[pass.coded].outputs);
  scratch.codes.clear(std::min(last * lanes, cloud.points) - first * lanes);
  std::uint64_t square[64];
  for (std::size_t block = first; block < last; ++block) {
    std::copy_n(cloud.rows.data() + block * size, size, scratch.floats.data());
    run_block(pass.first, pass.coded, state, lanes, scratch, pooled);
    for (std::size_t word = 0; word < width; ++word) {
      const std::size_t start = block * lanes + word * 64;
      if (start >= cloud.points) break;
      for (std::size_t k = 0; k < 64; ++k) square[k] = k < channels ? scratch.bits[k * width + word] : 0;
      transpose(square);
      for (std::size_t i = 0; i < std::min<std::size_t>(64, cloud.points - start); ++i) scratch.codes.insert(square[i]);
    }
  }
  const std::vector<std::uint64_t>& codes = scratch.codes.codes();
  for (std::size_t start = 0; start < codes.size(); start += lanes) {
    const std::size_t valid = std::min(lanes, codes.size() - start);
    for (std::size_t word = 0; word < width; ++word) {
      for (std::size_t i = 0; i < 64; ++i) square[i] = word * 64 + i < valid ? codes[start + word * 64 + i] : 0;
      transpose(square);
      for (std::size_t k = 0; k < channels; ++k) scratch.bits[k * width + word] = square[k];
    }
    run_block(pass.coded + 1, pass.last, state, valid, scratch, pooled);
  }
}

// The operations from `from` to `to`, both included, on the block in scratch.floats or scratch.bits.
void Model::run_block(std::size_t from, std::size_t to, const State& state, std::size_t valid, Scratch& scratch,
                      Pooled& pooled) const {
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes), width = lanes / 64;
  const auto record_floats = [&](std::size_t i, const float* rows, std::size_t channels) {
    if (state.trace == nullptr) return;
    Value& value = (*state.trace)[i];
    value.columns = channels;
    value.rows += valid;
    for (std::size_t p = 0; p < valid; ++p) {
      for (std::size_t c = 0; c < channels; ++c) value.numbers.push_back(rows[c * lanes + p]);
    }
  };
  const auto record_bits = [&](std::size_t i, std::size_t channels) {
    if (state.trace == nullptr) return;
    Value& value = (*state.trace)[i];
    value.bits = true;
    value.columns = channels;
    value.rows += valid;
    for (std::size_t p = 0; p < valid; ++p) {
      for (std::size_t c = 0; c < channels; ++c) value.numbers.push_back(get_bit(scratch.bits.data() + c * width, p));
    }
  };
  for (std::size_t i = from; i <= to; ++i) {
    const Layer& layer = network_.layers[i];
    const std::size_t inputs = static_cast<std::size_t>(layer.inputs), outputs = static_cast<std::size_t>(layer.outputs);
    const bool then_sign = i < to && network_.layers[i + 1].op == Op::sign && layer.activation != Activation::relu;
    switch (layer.op) {
      case Op::points:
        record_floats(i, scratch.floats.data(), outputs);
        break;
      case Op::transform: {
        const Matrix& matrix = state.matrices[static_cast<std::size_t>(layer.matrix)];
        const int size = static_cast<int>(matrix.size);
        const bool whole = matrix.size == inputs;
        if (then_sign && whole) {
          kernels_.signs(scratch.floats.data(), size, matrix.transposed.data(), matrix.nothing.data(), size,
                         scratch.bits.data());
          if (state.trace == nullptr) {
            ++i;
            break;
          }
        }
        kernels_.dense(scratch.floats.data(), size, matrix.transposed.data(), matrix.nothing.data(), size, 0,
                       scratch.more_floats.data());
        std::copy_n(scratch.more_floats.data(), matrix.size * lanes, scratch.floats.data());
        record_floats(i, scratch.floats.data(), outputs);
        if (then_sign && whole) record_bits(++i, outputs);
        break;
      }
      case Op::dense: {
        if (then_sign) {
          kernels_.signs(scratch.floats.data(), layer.inputs, layer.weight.data(), prepared_[i].bound.data(),
                         layer.outputs, scratch.bits.data());
          if (state.trace == nullptr) {
            ++i;
            break;
          }
        }
        kernels_.dense(scratch.floats.data(), layer.inputs, layer.weight.data(), layer.bias.data(), layer.outputs,
                       activation_code(layer.activation), scratch.more_floats.data());
        std::swap(scratch.floats, scratch.more_floats);
        record_floats(i, scratch.floats.data(), outputs);
        if (then_sign) record_bits(++i, outputs);
        break;
      }
      case Op::sign:
      case Op::compare: {
        const float one = 1.0f;
        for (std::size_t k = 0; k < inputs; ++k) {
          kernels_.signs(scratch.floats.data() + k * lanes, 1, &one, &layer.at, 1, scratch.bits.data() + k * width);
        }
        record_bits(i, outputs);
        break;
      }
      case Op::bilinear:
        kernels_.carries(scratch.bits.data(), layer.inputs, scratch.table.data());
        kernels_.layer(scratch.table.data(), prepared_[i].sliced->with(prepared_[i].starts), scratch.bits.data());
        record_bits(i, outputs);
        break;
      case Op::bilinear_pool:
      case Op::pool:
        for (std::size_t word = 0; word < width; ++word) {
          const std::size_t left = valid > word * 64 ? valid - word * 64 : 0;
          scratch.mask[word] = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
        }
        if (layer.op == Op::bilinear_pool && layer.pool == Pool::max) {
          kernels_.carries(scratch.bits.data(), layer.inputs, scratch.table.data());
          kernels_.pool(scratch.table.data(), prepared_[i].sliced->with((*state.pools)[i]), scratch.mask.data(), pooled.fired.data());
        } else if (layer.op == Op::bilinear_pool) {
          for (std::size_t k = 0; k < inputs; ++k) {
            for (std::size_t word = 0; word < width; ++word) {
              pooled.ones[k] += __builtin_popcountll(scratch.bits[k * width + word] & scratch.mask[word]);
            }
          }
        } else if (layer.pool == Pool::max) {
          for (std::size_t k = 0; k < inputs; ++k) {
            const float* row = scratch.floats.data() + k * lanes;
            for (std::size_t p = 0; p < valid; ++p) pooled.largest[k] = std::max(pooled.largest[k], row[p]);
          }
        } else {
          for (std::size_t p = 0; p < valid; ++p) {
            pooled.add_to_mean([&](std::size_t k) { return scratch.floats[k * lanes + p]; });
          }
        }
        break;
      default:
        throw std::logic_error("an operation on vectors in a pass over points");
    }
  }
}

void Model::run_points(const Pass& pass, const Cloud& cloud, const State& state, std::size_t first, std::size_t last,
                       Scratch& scratch, Pooled& pooled) const {
  const std::size_t lanes = static_cast<std::size_t>(kernels_.lanes);
  const std::size_t channels = static_cast<std::size_t>(network_.channels);
  for (std::size_t point = first * lanes; point < std::min(last * lanes, cloud.points); ++point) {
    const float* rows = cloud.rows.data() + point / lanes * channels * lanes + point % lanes;
    Vector& vector = scratch.vector;
    vector.floats.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) vector.floats[c] = rows[c * lanes];
    for (std::size_t i = pass.first; i < pass.last; ++i) {
      const Layer& layer = network_.layers[i];
      if (layer.op == Op::transform) {
        transform_vector(kernels_, state.matrices[static_cast<std::size_t>(layer.matrix)], vector);
      } else if (layer.op != Op::points) {
        run_vector(kernels_, layer, prepared_[i].vector, vector);
      }
      if (state.trace == nullptr) continue;
      record(layer, vector, (*state.trace)[i]);
      ++(*state.trace)[i].rows;
    }
    pool_point(pass.last, state, vector, pooled);
  }
}

void Model::pool_point(std::size_t index, const State& state, Vector& vector, Pooled& pooled) const {
  const Layer& layer = network_.layers[index];
  const std::size_t outputs = static_cast<std::size_t>(layer.outputs);
  if (layer.op == Op::bilinear_pool && layer.pool == Pool::max) {
    const std::vector<int>& threshold = (*state.pools)[index].threshold;
    count_agreements(kernels_, layer, prepared_[index].vector, vector);
    for (std::size_t m = 0; m < outputs; ++m) {
      if (vector.counts[m] >= threshold[m]) pooled.fired[m / 64] |= std::uint64_t{1} << m % 64;
    }
  } else if (layer.op == Op::bilinear_pool) {
    for (std::size_t k = 0; k < pooled.ones.size(); ++k) pooled.ones[k] += get_bit(vector.bits.data(), k);
  } else if (layer.pool == Pool::max) {
    kernels_.raise(vector.floats.data(), layer.outputs, pooled.largest.data());
  } else {
    pooled.add_to_mean([&](std::size_t k) { return vector.floats[k]; });
  }
}

void Model::run_on_cloud(std::size_t index, State& state) const {
  const Layer& layer = network_.layers[index];
  if (layer.op == Op::shift) {
    const float shift = static_cast<float>(delta(state.points));
    for (float& number : state.vector.floats) number -= shift;
  } else if (layer.op == Op::matrix) {
    state.matrices.push_back(keep_matrix(static_cast<std::size_t>(layer.outputs), state.vector));
  } else {
    run_vector(kernels_, layer, prepared_[index].vector, state.vector);
  }
}

}  // namespace bipointnet
