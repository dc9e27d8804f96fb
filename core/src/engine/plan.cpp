#include "engine/plan.h"

#include <algorithm>
#include <cmath>

#include "format/bits.h"

namespace bipointnet {
namespace {

// The given columns of a matrix of bits, up to 64 successive ones at a time.
std::vector<std::uint64_t> columns_of(const Operation& layer, const std::vector<std::size_t>& columns) {
  const std::size_t from = words_for(size(layer.inputs)), to = words_for(columns.size());
  std::vector<std::uint64_t> chosen(size(layer.outputs) * to);
  for (std::size_t first = 0, count = 0; first < columns.size(); first += count) {
    const std::size_t most = std::min(64 - first % 64, 64 - columns[first] % 64);  // within one word of each
    for (count = 1; count < most && first + count < columns.size(); ++count) {
      if (columns[first + count] != columns[first] + count) break;
    }
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - count);
    for (std::size_t m = 0; m < size(layer.outputs); ++m) {
      const std::uint64_t bits = layer.bits[m * from + columns[first] / 64] >> columns[first] % 64;
      chosen[m * to + first / 64] |= (bits & mask) << first % 64;
    }
  }
  return chosen;
}

class Preparation {
 public:
  Preparation(const Network& network, Plan& plan) : network_(network), plan_(plan), readers_(network.values.size()) {
    plan_.producer.resize(network.values.size());
    for (std::size_t i = 0; i < network.operations.size(); ++i) {
      for (const int value : network.operations[i].out) plan_.producer[size(value)] = static_cast<int>(i);
      for (const int value : network.operations[i].in) readers_[size(value)].push_back(static_cast<int>(i));
    }
  }

  void run(const WhenPrepared& done) {
    plan_.index_of.assign(network_.domains.size(), -1);
    for (std::size_t v = 0; v < network_.values.size(); ++v) {
      if (network_.values[v].kind == Kind::indices) plan_.index_of[size(network_.values[v].domain)] = static_cast<int>(v);
    }
    plan_.operations.resize(network_.operations.size());
    for (std::size_t i = 0; i < network_.operations.size(); ++i) {
      const Operation& operation = network_.operations[i];
      if (operation.op == Op::concat) plan_.operations[i].parts = copied_parts(operation);
    }
    // From the last to the first: the last layers are the largest ones of many networks, and if their weights are freed
    // at once, the other layers take that memory.
    for (std::size_t i = network_.operations.size(); i-- > 0;) {
      const Operation& operation = network_.operations[i];
      PreparedOperation& prepared = plan_.operations[i];
      if (type_of(network_, operation) == Step::Type::vector) {
        prepared.vector = prepare_vector_layer(operation);
      } else {
        prepare_on_elements(operation, prepared);
      }
      if (done) done(i);
    }
  }

 private:
  const Operation& producer(int value) const { return network_.operations[size(plan_.producer[size(value)])]; }

  bool repeats_cloud(int value) const {
    const Operation& made_by = producer(value);
    return made_by.op == Op::broadcast && network_.values[size(made_by.in[0])].domain == kCloudDomain;
  }

  // Bits of the cloud are not copied to every element if only bilinear layers read the concatenation.
  std::vector<int> copied_parts(const Operation& concat) const {
    const std::size_t result = size(concat.out[0]);
    bool bilinear = network_.values[result].kind == Kind::bits && !plan_.keeps_everything;
    for (const int reader : readers_[result]) {
      const Operation& operation = network_.operations[size(reader)];
      bilinear &= operation.op == Op::bilinear && operation.groups == 1;
    }
    std::vector<int> parts;
    for (const int value : concat.in) {
      if (!bilinear || !repeats_cloud(value)) parts.push_back(value);
    }
    return parts.empty() ? concat.in : parts;
  }

  void prepare_on_elements(const Operation& operation, PreparedOperation& prepared) const {
    if (operation.op == Op::dense) prepare_dense(operation, prepared);
    if (operation.op == Op::affine || operation.op == Op::bilinear_float) prepared.vector.set_line(operation);
    if (operation.bits.empty()) return;
    const int inputs = operation.inputs / operation.groups, outputs = operation.outputs / operation.groups;
    bool fixed = operation.op != Op::bilinear_pool;  // whether it has the same thresholds in all runs
    const Operation& before = producer(operation.in[0]);
    const std::vector<int>& parts = plan_.operations[size(plan_.producer[size(operation.in[0])])].parts;
    if (before.op == Op::concat && parts.size() < before.in.size()) {
      split_columns(operation, before, parts, prepared);
      fixed = false;
    } else {
      const std::size_t words = operation.bits.size() / size(operation.groups);
      for (std::size_t g = 0; g < size(operation.groups); ++g) {
        const std::uint64_t* rows = operation.bits.data() + g * words;
        prepared.bitsliced.emplace_back(rows, inputs, outputs, fixed || plan_.one_copy);
      }
    }
    const std::size_t scratch = size(scratch_slices(inputs, outputs));
    plan_.scratch_slices = std::max(plan_.scratch_slices, scratch);
    if (operation.op == Op::bilinear_pool) prepared.counting = prepared.bitsliced[0].counting();
    if (is_code_pool(network_, plan_, operation)) prepared.tiles = tiled(operation.bits.data(), inputs, outputs);
    for (std::size_t g = 0; g < size(operation.groups); ++g) {
      if (operation.op == Op::bilinear_float) {
        prepared.thresholds.push_back(prepared.bitsliced[g].counting());
      } else if (!operation.threshold.empty()) {
        const auto first = operation.threshold.begin() + static_cast<std::ptrdiff_t>(g * size(outputs));
        prepared.thresholds.push_back(prepared.bitsliced[g].thresholds({first, first + outputs}));
      }
      if (fixed && !plan_.one_copy) prepared.bitsliced[g].fix(prepared.thresholds[g]);
    }
  }

  static void prepare_dense(const Operation& operation, PreparedOperation& prepared) {
    for (const float bias : operation.bias) prepared.bound.push_back(-bias);
    const std::size_t inputs = size(operation.inputs / operation.groups);
    for (std::size_t m = 0; m < size(operation.outputs); ++m) {
      double sum = 0;
      for (std::size_t k = 0; k < inputs; ++k) sum += std::abs(double{operation.weight[m * inputs + k]});
      prepared.norms.push_back(static_cast<float>(sum));
    }
  }

  // A layer after a concatenation: the columns of elements are bitsliced, the columns of the cloud are tiled.
  void split_columns(const Operation& layer, const Operation& concat, const std::vector<int>& parts,
                     PreparedOperation& prepared) const {
    std::vector<std::size_t> of_elements, of_cloud;
    std::size_t column = 0;
    for (const int value : concat.in) {
      const bool copied = std::find(parts.begin(), parts.end(), value) != parts.end();
      if (!copied) prepared.cloud.values.push_back(producer(value).in[0]);
      std::vector<std::size_t>& columns = copied ? of_elements : of_cloud;
      for (int k = 0; k < network_.values[size(value)].channels; ++k) columns.push_back(column++);
    }
    const int elements = static_cast<int>(of_elements.size()), cloud = static_cast<int>(of_cloud.size());
    prepared.bitsliced.emplace_back(columns_of(layer, of_elements).data(), elements, layer.outputs, plan_.one_copy);
    prepared.cloud.inputs = cloud;
    prepared.cloud.tiles = tiled(columns_of(layer, of_cloud).data(), cloud, layer.outputs);
  }

  const Network& network_;
  Plan& plan_;
  std::vector<std::vector<int>> readers_;  // per value: the operations that read it
};

}  // namespace

bool contains(const std::vector<int>& list, int item) { return std::find(list.begin(), list.end(), item) != list.end(); }

void prepare_operations(const Network& network, Plan& plan, const WhenPrepared& prepared) {
  Preparation(network, plan).run(prepared);
}

Plan make_plan(const Network& network, const Kernels& kernels, PlanFor purpose, const WhenPrepared& prepared) {
  Plan plan;
  plan.lanes = size(kernels.lanes);
  plan.one_copy = kernels.one_copy;
  plan.keeps_everything = purpose == PlanFor::trace;
  plan.uses_codes = purpose == PlanFor::prediction;
  prepare_operations(network, plan, prepared);
  schedule(network, plan);
  if (plan.uses_codes) find_codes(network, plan);
  fuse_operations(network, plan);
  find_elements(network, plan);
  place_buffers(network, plan);
  return plan;
}

void release_weights(Network& network, std::size_t number) {
  Operation& operation = network.operations[number];
  const bool counts_ones = operation.op == Op::bilinear_pool && operation.pool == Pool::mean;
  if (!counts_ones) std::vector<std::uint64_t>().swap(operation.bits);
  if (type_of(network, operation) == Step::Type::vector) std::vector<float>().swap(operation.weight);
}

void release_lines(Network& network) {
  for (Operation& operation : network.operations) {
    if (operation.op != Op::bilinear_pool) std::vector<double>().swap(operation.line);
  }
}

}  // namespace bipointnet
