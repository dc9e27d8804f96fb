#include "engine/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "engine/bitsliced.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

constexpr std::size_t kSums = 8;

// Eight partial sums, over k = j, j + 8, j + 16, ..., added in order at the end: the same result on every machine, and
// no long chain of dependent additions.
float mean_abs(const float* x, std::size_t count) {
  double sums[kSums] = {};
  std::size_t k = 0;
  for (; k + kSums <= count; k += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += std::abs(double{x[k + j]});
  }
  for (std::size_t j = 0; k + j < count; ++j) sums[j] += std::abs(double{x[k + j]});
  double total = 0;
  for (const double sum : sums) total += sum;
  return static_cast<float>(total / static_cast<double>(count));
}

// Copies `count` bits from bit `from` of one row to bit `to` of another, whose bits there are zero.
void copy_bits(const std::uint64_t* source, std::size_t from, std::size_t count, std::uint64_t* target,
               std::size_t to) {
  for (std::size_t k = 0; k < count; ++k) {
    target[(to + k) / 64] |= std::uint64_t{get_bit(source, from + k)} << (to + k) % 64;
  }
}

class VectorOperation {
 public:
  VectorOperation(const Kernels& kernels, const Network& network, const Operation& operation,
                  const VectorLayer& prepared, int category, VectorScratch& scratch, std::vector<Storage>& values)
      : kernels_(kernels),
        network_(network),
        operation_(operation),
        prepared_(prepared),
        category_(category),
        scratch_(scratch),
        values_(values),
        groups_(size(operation.groups)),
        inputs_(size(operation.inputs) / groups_),
        outputs_(size(operation.outputs) / groups_) {}

  void run() {
    Storage& out = values_[size(operation_.out[0])];
    if (kind(operation_.out[0]) == Kind::bits) {
      out.words.assign(words_for(size(operation_.outputs)), 0);
    } else {
      out.elements.resize(size(operation_.outputs));
    }
    switch (operation_.op) {
      case Op::category: out.words[size(category_) / 64] |= std::uint64_t{1} << size(category_) % 64; break;
      case Op::concat: concat(out); break;
      case Op::slice: slice(out); break;
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide: binary(out); break;
      case Op::affine:
        for (std::size_t k = 0; k < out.elements.size(); ++k) {
          out.elements[k] = activate(prepared_.a[k] * floats(0)[k] + prepared_.b[k], activation());
        }
        break;
      case Op::function:
        kernels_.function(static_cast<int>(operation_.function), operation_.slope, floats(0), operation_.outputs,
                          out.elements.data());
        break;
      case Op::dense: dense(out); break;
      case Op::transform: transform(out); break;
      case Op::sign: kernels_.compare(floats(0), operation_.inputs, operation_.at, out.words.data()); break;
      case Op::mean_abs:
        for (std::size_t g = 0; g < groups_; ++g) {
          out.elements[g] = bipointnet::mean_abs(floats(0) + g * inputs_, inputs_);
        }
        break;
      case Op::bilinear: bilinear(out); break;
      case Op::bilinear_float: bilinear_float(out); break;
      default: throw std::logic_error("not an operation on the cloud");
    }
  }

 private:
  Kind kind(int value) const { return network_.values[size(value)].kind; }
  std::size_t channels(std::size_t operand) const { return size(network_.values[size(operation_.in[operand])].channels); }
  const float* floats(std::size_t operand) const { return values_[size(operation_.in[operand])].elements.data(); }
  const std::uint64_t* words(std::size_t operand) const { return values_[size(operation_.in[operand])].words.data(); }
  int activation() const { return activation_code(operation_.activation); }

  void concat(Storage& out) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < operation_.in.size(); ++i) {
      if (kind(operation_.out[0]) == Kind::bits) {
        copy_bits(words(i), 0, channels(i), out.words.data(), at);
      } else {
        std::copy_n(floats(i), channels(i), out.elements.begin() + static_cast<std::ptrdiff_t>(at));
      }
      at += channels(i);
    }
  }

  void slice(Storage& out) const {
    if (kind(operation_.out[0]) == Kind::bits) {
      copy_bits(words(0), size(operation_.from), size(operation_.outputs), out.words.data(), 0);
    } else {
      std::copy_n(floats(0) + operation_.from, operation_.outputs, out.elements.begin());
    }
  }

  void binary(Storage& out) const {
    const std::size_t step_a = channels(0) > 1, step_b = channels(1) > 1;
    for (std::size_t k = 0; k < out.elements.size(); ++k) {
      kernels_.binary(static_cast<int>(operation_.op) - static_cast<int>(Op::add), floats(0) + k * step_a,
                      floats(1) + k * step_b, 1, &out.elements[k]);
    }
  }

  void dense(Storage& out) const {
    for (std::size_t g = 0; g < groups_; ++g) {
      kernels_.dense_vector(floats(0) + g * inputs_, static_cast<int>(inputs_),
                            prepared_.columns.data() + g * inputs_ * outputs_, operation_.bias.data() + g * outputs_,
                            static_cast<int>(outputs_), activation(), out.elements.data() + g * outputs_);
    }
  }

  void transform(Storage& out) const {
    const std::size_t rows = channels(0), columns = out.elements.size();
    for (std::size_t m = 0; m < columns; ++m) {
      float sum = floats(0)[0] * floats(1)[m];
      for (std::size_t k = 1; k < rows; ++k) sum += floats(0)[k] * floats(1)[k * columns + m];
      out.elements[m] = sum;
    }
  }

  // Agreements of the bits of group g with each of its rows of weights.
  const int* agreements(std::size_t g) {
    const std::size_t width = words_for(inputs_), tiles = (outputs_ + kTile - 1) / kTile * kTile * width;
    const std::uint64_t* bits = words(0);
    if (groups_ > 1) {
      scratch_.words.assign(width, 0);
      copy_bits(words(0), g * inputs_, inputs_, scratch_.words.data(), 0);
      bits = scratch_.words.data();
    }
    if (scratch_.counts.size() < outputs_ + kTile) scratch_.counts.resize(outputs_ + kTile);
    kernels_.agreements(bits, prepared_.tiles.data() + g * tiles, static_cast<int>(inputs_), static_cast<int>(outputs_),
                        scratch_.counts.data());
    return scratch_.counts.data();
  }

  void bilinear(Storage& out) {
    for (std::size_t g = 0; g < groups_; ++g) {
      const int* counts = agreements(g);
      for (std::size_t m = 0; m < outputs_; ++m) {
        const std::size_t at = g * outputs_ + m;
        out.words[at / 64] |= std::uint64_t{counts[m] >= operation_.threshold[at]} << at % 64;
      }
    }
  }

  void bilinear_float(Storage& out) {
    for (std::size_t g = 0; g < groups_; ++g) {
      const int* counts = agreements(g);
      const std::size_t at = g * outputs_;
      kernels_.affine(counts, static_cast<int>(inputs_), prepared_.a.data() + at, prepared_.b.data() + at,
                      operation_.in.size() > 1 ? floats(1)[g] : 1.0f, static_cast<int>(outputs_), activation(),
                      out.elements.data() + at);
    }
  }

  const Kernels& kernels_;
  const Network& network_;
  const Operation& operation_;
  const VectorLayer& prepared_;
  int category_;
  VectorScratch& scratch_;
  std::vector<Storage>& values_;
  std::size_t groups_, inputs_, outputs_;  // inputs and outputs per group
};

}  // namespace

int activation_code(Activation activation) {
  return activation == Activation::relu ? 1 : activation == Activation::hardtanh ? 2 : 0;
}

void VectorLayer::set_line(const Operation& operation) {
  for (std::size_t i = 0; i < operation.line.size(); i += 2) {
    a.push_back(static_cast<float>(operation.line[i]));
    b.push_back(static_cast<float>(operation.line[i + 1]));
  }
}

VectorLayer prepare_vector_layer(const Operation& operation) {
  VectorLayer prepared;
  const std::size_t groups = size(operation.groups);
  const std::size_t inputs = size(operation.inputs) / groups, outputs = size(operation.outputs) / groups;
  prepared.columns.resize(operation.weight.size());
  for (std::size_t at = 0; at < operation.weight.size(); ++at) {
    const std::size_t g = at / (inputs * outputs), m = at / inputs % outputs, k = at % inputs;
    prepared.columns[g * inputs * outputs + k * outputs + m] = operation.weight[at];
  }
  const std::size_t words = operation.bits.size() / groups;
  for (std::size_t g = 0; g < groups && words > 0; ++g) {
    std::vector<std::uint64_t> tiles =
        tiled(operation.bits.data() + g * words, static_cast<int>(inputs), static_cast<int>(outputs));
    if (groups == 1) {
      prepared.tiles = std::move(tiles);
    } else {
      prepared.tiles.insert(prepared.tiles.end(), tiles.begin(), tiles.end());
    }
  }
  prepared.set_line(operation);
  return prepared;
}

void evaluate(const Kernels& kernels, const Network& network, const Operation& operation, const VectorLayer& prepared,
              int category, VectorScratch& scratch, std::vector<Storage>& values) {
  VectorOperation(kernels, network, operation, prepared, category, scratch, values).run();
}

}  // namespace bipointnet
