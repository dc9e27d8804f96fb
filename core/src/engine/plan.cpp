#include "engine/plan.h"

#include <algorithm>
#include <cmath>

#include "format/bits.h"

namespace bipointnet {
namespace {

bool starts_pass(Op op) { return op == Op::points || op == Op::join; }

bool ends_pass(Op op) { return op == Op::bilinear_pool || op == Op::pool; }

bool writes_floats(const Layer& layer, bool reads_floats) {
  switch (layer.op) {
    case Op::points:
    case Op::transform:
    case Op::dense:
    case Op::bilinear_float:
    case Op::bilinear_scaled:
    case Op::pool:
    case Op::shift: return true;
    case Op::keep: return reads_floats;
    default: return false;
  }
}

// The given columns of a matrix of bits.
std::vector<std::uint64_t> columns_of(const Layer& layer, const std::vector<std::size_t>& columns) {
  const std::size_t from = words_for(size(layer.inputs)), to = words_for(columns.size());
  std::vector<std::uint64_t> chosen(size(layer.outputs) * to);
  for (std::size_t m = 0; m < size(layer.outputs); ++m) {
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::uint64_t bit = layer.bits[m * from + columns[k] / 64] >> columns[k] % 64 & 1;
      chosen[m * to + k / 64] |= bit << k % 64;
    }
  }
  return chosen;
}

// A layer after a join: the columns of points are bitsliced, the columns of vectors are tiled.
void prepare_joined(const Network& network, std::size_t index, PreparedLayer& prepared) {
  const Layer& layer = network.layers[index];
  std::vector<std::size_t> of_points, of_vectors;
  std::size_t column = 0;
  for (const int number : network.layers[index - 1].joined) {
    const Kept& kept = network.kept[size(number)];
    std::vector<std::size_t>& columns = kept.on_points ? of_points : of_vectors;
    for (int k = 0; k < kept.width; ++k) columns.push_back(column++);
  }
  const int points = static_cast<int>(of_points.size()), vectors = static_cast<int>(of_vectors.size());
  prepared.bitsliced = std::make_unique<BitslicedWeights>(columns_of(layer, of_points), points, layer.outputs);
  prepared.joined.inputs = vectors;
  if (vectors > 0) prepared.joined.tiles = tiled(columns_of(layer, of_vectors), vectors, layer.outputs);
}

void prepare_on_points(const Network& network, std::size_t index, PreparedLayer& prepared) {
  const Layer& layer = network.layers[index];
  const bool floats = layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled;
  if (layer.op == Op::dense) {
    for (const float bias : layer.bias) prepared.bound.push_back(-bias);
    for (std::size_t m = 0; m < size(layer.outputs); ++m) {
      double sum = 0;
      for (std::size_t k = 0; k < size(layer.inputs); ++k) {
        sum += std::abs(double{layer.weight[m * size(layer.inputs) + k]});
      }
      prepared.norms.push_back(static_cast<float>(sum));
    }
  }
  if (index > 0 && network.layers[index - 1].op == Op::join && reads_join_in_parts(network, index - 1)) {
    prepare_joined(network, index, prepared);
  } else if (!layer.bits.empty() && !(layer.op == Op::bilinear_pool && layer.pool == Pool::mean && layer.kept < 0)) {
    prepared.bitsliced = std::make_unique<BitslicedWeights>(layer.bits, layer.inputs, layer.outputs);
  }
  if (!layer.threshold.empty()) {
    prepared.thresholds = prepared.bitsliced->thresholds({layer.threshold.begin(), layer.threshold.end()});
  }
  if (floats) {
    prepared.thresholds = prepared.bitsliced->counting();
    prepared.vector.set_line(layer);
  }
}

// Whether two operations compute the same from the same value.
bool same(const Layer& a, const Layer& b) {
  return a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs && a.activation == b.activation &&
         a.at == b.at && a.matrix == b.matrix && a.bits == b.bits && a.threshold == b.threshold && a.line == b.line &&
         a.weight == b.weight && a.bias == b.bias;
}

bool same_codes(const Network& network, const Pass& a, const Pass& b) {
  if (a.code_op == 0 || b.code_op == 0 || a.code_op - a.first != b.code_op - b.first) return false;
  const auto at = [&](std::size_t index) { return network.layers.begin() + static_cast<std::ptrdiff_t>(index); };
  return std::equal(at(a.first), at(a.code_op + 1), at(b.first), same);
}

std::vector<Pass> find_passes(const Network& network) {
  std::vector<Pass> passes;
  bool code_expected = false;  // whether the code of the current pass may still come
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (starts_pass(layer.op)) {
      passes.push_back({i, i});
      code_expected = layer.op == Op::points;
    }
    if (!layer.on_points) continue;
    Pass& pass = passes.back();
    pass.last = i;
    if (layer.kept >= 0) {
      pass.stores_points = true;
      code_expected = false;  // what was kept before does not follow from a later code
    }
    if (code_expected && (layer.op == Op::sign || layer.op == Op::compare) && layer.outputs <= 64) {
      pass.code_op = i;
      code_expected = false;
    }
    // A mean depends on how many points have each code.
    if (layer.op == Op::pool || (layer.op == Op::bilinear_pool && layer.pool == Pool::mean)) pass.code_op = 0;
  }
  if (network.per_point()) passes.back().stores_points = true;
  return passes;
}

// What passes store per point, and what is joined of it, is computed once per code if all passes have the same codes.
void share_codes(const Network& network, std::vector<Pass>& passes) {
  const Pass* model = nullptr;
  for (const Pass& pass : passes) {
    const Layer& last = network.layers[pass.last];
    const bool joins = network.layers[pass.first].op == Op::join;
    if (joins && ends_pass(last.op) && (last.op == Op::pool || last.pool == Pool::mean)) return;
    if (joins || !pass.stores_points) continue;
    if (model == nullptr) model = &pass;
    if (!same_codes(network, *model, pass)) return;
  }
  if (model == nullptr) return;
  for (Pass& pass : passes) {
    pass.shares_codes = network.layers[pass.first].op == Op::join || same_codes(network, *model, pass);
  }
}

}  // namespace

bool reads_join_in_parts(const Network& network, std::size_t join) {
  return network.layers[join + 1].op == Op::bilinear;
}

bool joins_in_place(const Network& network, std::size_t join) {
  int expected = -1;
  for (const int number : network.layers[join].joined) {
    if (!network.kept[size(number)].on_points) continue;
    if (expected >= 0 && number != expected) return false;
    expected = number + 1;
    while (expected < static_cast<int>(network.kept.size()) && !network.kept[size(expected)].on_points) ++expected;
  }
  return reads_join_in_parts(network, join);
}

Plan make_plan(const Network& network) {
  Plan plan;
  for (const Kept& kept : network.kept) {
    plan.kept_columns.push_back(plan.kept_width);
    if (kept.on_points) plan.kept_width += size(kept.width);
  }
  plan.layers.resize(network.layers.size());
  bool floats = false;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    PreparedLayer& prepared = plan.layers[i];
    prepared.reads_floats = floats;
    prepared.writes_floats = floats = writes_floats(layer, floats);
    if (layer.on_points) {
      prepare_on_points(network, i, prepared);
    } else {
      prepared.vector = prepare_vector_layer(layer);
    }
    const bool at_points = starts_pass(layer.op) || (layer.on_points && !ends_pass(layer.op));
    std::size_t& most = floats ? plan.max_float_channels : plan.max_bit_channels;
    if (at_points) most = std::max(most, size(layer.outputs));
  }
  plan.passes = find_passes(network);
  share_codes(network, plan.passes);
  return plan;
}

}  // namespace bipointnet
