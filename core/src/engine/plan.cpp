#include "engine/plan.h"

#include <algorithm>
#include <cmath>

#include "format/bits.h"

namespace bipointnet {
namespace {

bool starts_pass(Op op) { return op == Op::points || op == Op::join; }

bool ends_pass(Op op) { return op == Op::bilinear_pool || op == Op::pool; }

bool leaves_floats(const Layer& layer, bool of_floats) {
  switch (layer.op) {
    case Op::points:
    case Op::transform:
    case Op::dense:
    case Op::bilinear_float:
    case Op::bilinear_scaled:
    case Op::pool:
    case Op::shift: return true;
    case Op::keep: return of_floats;
    default: return false;
  }
}

// Some columns of a matrix of bits.
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

// A layer behind a join: its columns of points in slices, those of vectors in tiles.
void prepare_joined(const Network& network, std::size_t index, Prepared& prepared) {
  const Layer& layer = network.layers[index];
  std::vector<std::size_t> of_points, of_vectors;
  std::size_t column = 0;
  for (const int number : network.layers[index - 1].joined) {
    const Kept& kept = network.kept[size(number)];
    std::vector<std::size_t>& columns = kept.on_points ? of_points : of_vectors;
    for (int k = 0; k < kept.width; ++k) columns.push_back(column++);
  }
  const int points = static_cast<int>(of_points.size()), vectors = static_cast<int>(of_vectors.size());
  prepared.sliced = std::make_unique<SlicedLayer>(columns_of(layer, of_points), points, layer.outputs);
  prepared.joined.inputs = vectors;
  if (vectors > 0) prepared.joined.tiles = tiled(columns_of(layer, of_vectors), vectors, layer.outputs);
}

void prepare_on_points(const Network& network, std::size_t index, Prepared& prepared) {
  const Layer& layer = network.layers[index];
  const bool floats = layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled;
  if (layer.op == Op::dense) {
    for (const float bias : layer.bias) prepared.bound.push_back(-bias);
    for (std::size_t m = 0; m < size(layer.outputs); ++m) {
      double sum = 0;
      for (std::size_t k = 0; k < size(layer.inputs); ++k) {
        sum += std::abs(double{layer.weight[m * size(layer.inputs) + k]});
      }
      prepared.sizes.push_back(static_cast<float>(sum));
    }
  }
  if (index > 0 && network.layers[index - 1].op == Op::join && reads_join_in_parts(network, index - 1)) {
    prepare_joined(network, index, prepared);
  } else if (!layer.bits.empty() && !(layer.op == Op::bilinear_pool && layer.pool == Pool::mean && layer.kept < 0)) {
    prepared.sliced = std::make_unique<SlicedLayer>(layer.bits, layer.inputs, layer.outputs);
  }
  if (!layer.threshold.empty()) {
    prepared.starts = prepared.sliced->starts({layer.threshold.begin(), layer.threshold.end()});
  }
  if (floats) {
    prepared.starts = prepared.sliced->counts();
    prepared.vector.take_line(layer);
  }
}

// Whether two operations do the same to the same value.
bool same(const Layer& a, const Layer& b) {
  return a.op == b.op && a.inputs == b.inputs && a.outputs == b.outputs && a.activation == b.activation &&
         a.at == b.at && a.matrix == b.matrix && a.bits == b.bits && a.threshold == b.threshold && a.line == b.line &&
         a.weight == b.weight && a.bias == b.bias;
}

bool same_codes(const Network& network, const Pass& a, const Pass& b) {
  if (a.coded == 0 || b.coded == 0 || a.coded - a.first != b.coded - b.first) return false;
  const auto at = [&](std::size_t index) { return network.layers.begin() + static_cast<std::ptrdiff_t>(index); };
  return std::equal(at(a.first), at(a.coded + 1), at(b.first), same);
}

std::vector<Pass> find_passes(const Network& network) {
  std::vector<Pass> passes;
  bool codes_wanted = false;  // whether the code of the current pass is still to come
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (starts_pass(layer.op)) {
      passes.push_back({i, i});
      codes_wanted = layer.op == Op::points;
    }
    if (!layer.on_points) continue;
    Pass& pass = passes.back();
    pass.last = i;
    if (layer.kept >= 0) {
      pass.leaves = true;
      codes_wanted = false;  // what was kept before would not follow from the code
    }
    if (codes_wanted && (layer.op == Op::sign || layer.op == Op::compare) && layer.outputs <= 64) {
      pass.coded = i;
      codes_wanted = false;
    }
    // A mean depends on how many points have a code.
    if (layer.op == Op::pool || (layer.op == Op::bilinear_pool && layer.pool == Pool::mean)) pass.coded = 0;
  }
  if (network.segments) passes.back().leaves = true;
  return passes;
}

// What passes leave at points, and what is joined of it, can be worked out once a code if they all have the same codes.
void share_codes(const Network& network, std::vector<Pass>& passes) {
  const Pass* model = nullptr;
  for (const Pass& pass : passes) {
    const Layer& last = network.layers[pass.last];
    const bool joins = network.layers[pass.first].op == Op::join;
    if (joins && ends_pass(last.op) && (last.op == Op::pool || last.pool == Pool::mean)) return;
    if (joins || !pass.leaves) continue;
    if (model == nullptr) model = &pass;
    if (!same_codes(network, *model, pass)) return;
  }
  if (model == nullptr) return;
  for (Pass& pass : passes) {
    pass.shares = network.layers[pass.first].op == Op::join || same_codes(network, *model, pass);
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
    Prepared& prepared = plan.layers[i];
    prepared.of_floats = floats;
    prepared.to_floats = floats = leaves_floats(layer, floats);
    if (layer.on_points) {
      prepare_on_points(network, i, prepared);
    } else {
      prepared.vector = prepare_vector_layer(layer);
    }
    const bool at_points = starts_pass(layer.op) || (layer.on_points && !ends_pass(layer.op));
    std::size_t& most = floats ? plan.most_floats : plan.most_bits;
    if (at_points) most = std::max(most, size(layer.outputs));
  }
  plan.passes = find_passes(network);
  share_codes(network, plan.passes);
  return plan;
}

}  // namespace bipointnet
