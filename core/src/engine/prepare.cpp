// What a run prepares before a pass: memory, thresholds for this cloud, and matrices.
#include <algorithm>
#include <cmath>

#include "engine/run.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

// The number of distinct rows among `count` rows of `words` words.
std::uint32_t distinct_rows(const std::uint64_t* rows, std::size_t count, std::size_t words) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  const auto row = [&](std::uint32_t i) { return rows + std::size_t{i} * words; };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::lexicographical_compare(row(a), row(a) + words, row(b), row(b) + words);
  });
  const auto same = [&](std::uint32_t a, std::uint32_t b) { return std::equal(row(a), row(a) + words, row(b)); };
  return static_cast<std::uint32_t>(std::unique(order.begin(), order.end(), same) - order.begin());
}

}  // namespace

// Groups that end with maxima may run in any order. Then groups of similar size run together.
GroupLayout Run::make_layout(const Pass& pass) const {
  const std::vector<std::uint32_t>& counts = state_->values[size(plan_.index_of[size(pass.domain)])].counts;
  const std::size_t slots = state_->sizes[size(pass.domain)] / counts.size();
  const auto alike = [&](std::uint32_t count) { return count == counts.front(); };
  if (pass.maxima && pass.loads.empty() && pass.stores.empty() && !std::all_of(counts.begin(), counts.end(), alike)) {
    return layout_by_counts(counts, slots, lanes_);
  }
  return layout_of(counts.size(), slots, lanes_);
}

void Run::prepare(const Pass& pass, const GroupLayout* layout) {
  for (const int number : pass.operations) {
    const std::size_t index = size(number);
    const Operation& operation = network_.operations[index];
    if (is_code_pool(network_, plan_, operation)) continue;  // after the other operations
    if (operation.over == Over::distinct) count_distinct(index, layout);
    if (operation.op == Op::bilinear_pool && operation.pool == Pool::max) prepare_pool(index, layout);
    if (plan_.operations[index].cloud.inputs > 0) count_cloud_columns(index);
    const bool transform = operation.op == Op::transform;
    if (transform && network_.values[size(operation.in[1])].domain == kCloudDomain) make_matrix(index);
  }
}

void Run::prepare_pool(std::size_t index, const GroupLayout* layout) {
  const Operation& operation = network_.operations[index];
  const int domain = network_.values[size(operation.in[0])].domain;
  const std::vector<std::uint32_t>& distinct = state_->distinct[index];
  if (layout == nullptr) {
    const std::size_t n = operation.over == Over::distinct ? distinct.front() : state_->sizes[size(domain)];
    state_->pools[index] = workspace_.thresholds(index, n);
    return;
  }
  const std::vector<std::uint32_t>& neighbors = state_->values[size(plan_.index_of[size(domain)])].counts;
  const std::vector<std::uint32_t>& counts = operation.over == Over::distinct ? distinct : neighbors;
  const auto alike = [&](std::uint32_t count) { return count == counts.front(); };
  state_->pools[index] = nullptr;
  if (!operation.shifted || operation.over == Over::points) {
    state_->pools[index] = workspace_.thresholds(index, layout->slots);
  } else if (std::all_of(counts.begin(), counts.end(), alike)) {
    state_->pools[index] = workspace_.thresholds(index, counts.front());
  } else {
    state_->groups[index] = workspace_.group_thresholds(index, layout->slots);
  }
}

// The distinct rows of bits that a pool reads: of the whole set, or of each group.
void Run::count_distinct(std::size_t index, const GroupLayout* layout) {
  const Operation& operation = network_.operations[index];
  const int codes = operation.in.back();
  const std::vector<std::uint64_t>& rows = state_->values[size(codes)].words;
  const std::size_t words = words_for(size(network_.values[size(codes)].channels)), all = rows.size() / words;
  const std::size_t each = layout == nullptr ? all : layout->slots;
  state_->distinct[index].clear();
  for (std::size_t first = 0; first < all; first += each) {
    state_->distinct[index].push_back(distinct_rows(rows.data() + first * words, each, words));
  }
}

// Bits of the cloud are the same at all elements. So a layer counts its agreements with them once per cloud and subtracts
// them from its thresholds. The rest of the threshold remains for the bits of an element.
void Run::count_cloud_columns(std::size_t index) {
  const CloudColumns& cloud = plan_.operations[index].cloud;
  const Operation& layer = network_.operations[index];
  std::vector<std::uint64_t> bits(words_for(size(cloud.inputs)));
  std::size_t column = 0;
  for (const int value : cloud.values) {
    for (std::size_t k = 0; k < size(network_.values[size(value)].channels); ++k, ++column) {
      bits[column / 64] |= std::uint64_t{get_bit(state_->values[size(value)].words.data(), k)} << column % 64;
    }
  }
  std::vector<int> threshold(size(layer.outputs + kTile));
  kernels_.agreements(bits.data(), cloud.tiles.data(), cloud.inputs, layer.outputs, threshold.data());
  threshold.resize(size(layer.outputs));
  for (std::size_t m = 0; m < threshold.size(); ++m) threshold[m] = layer.threshold[m] - threshold[m];
  state_->reduced[index] = plan_.operations[index].bitsliced[0].thresholds(threshold);
}

void Run::make_matrix(std::size_t index) {
  const Operation& operation = network_.operations[index];
  const std::size_t rows = size(operation.inputs), columns = size(operation.outputs);
  const Aligned<float>& numbers = state_->values[size(operation.in[1])].elements;
  Matrix& matrix = state_->matrices[index];
  matrix.negative_zeros.assign(columns, -0.0f);
  matrix.norms.assign(columns, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) matrix.norms[c] += std::abs(numbers[r * columns + c]);
  }
  matrix.transposed.resize(rows * columns);
  kernels_.transpose_floats(numbers.data(), operation.outputs, operation.inputs, operation.outputs,
                            matrix.transposed.data(), operation.inputs);
}

// Memory for what a pass stores, and for its results over the parent domain.
void Run::make_room(const Pass& pass, std::size_t blocks) {
  const auto grow = [](auto& memory, std::size_t count) {
    if (memory.size() < count) memory.resize(count);
  };
  for (const int value : pass.stores) {
    const std::size_t channels = size(network_.values[size(value)].channels);
    Storage& stored = state_->values[size(value)];
    if (network_.values[size(value)].kind == Kind::floats) {
      grow(stored.rows, checked_product(blocks, channels * lanes_));
    } else {
      grow(stored.slices, checked_product(blocks, channels * width_));
    }
  }
  const auto elements = [&](int value) {
    const Value& known = network_.values[size(value)];
    const std::size_t count = state_->sizes[size(known.domain)], channels = size(known.channels);
    Storage& stored = state_->values[size(value)];
    if (known.kind == Kind::floats && plan_.stored_sign[size(value)] < 0) {
      stored.elements.resize(checked_product(count, channels));
    } else {
      stored.words.resize(checked_product(count, words_for(channels)));
    }
  };
  for (const int value : pass.writes) elements(value);
  for (const int index : pass.operations) {
    if (reduces(network_.operations[size(index)].op)) elements(network_.operations[size(index)].out[0]);
  }
}

}  // namespace bipointnet
