#include "engine/block.h"

#include <stdexcept>

#include "format/bits.h"

namespace bipointnet {

BlockRunner::BlockRunner(const Network& network, const Plan& plan, const Pass& pass, const Kernels& kernels,
                         const Cloud& cloud, const GroupLayout* layout, State& state, BlockBuffers& buffers,
                         std::vector<Pooled>& pooled)
    : network_(network),
      plan_(plan),
      pass_(pass),
      kernels_(kernels),
      cloud_(cloud),
      layout_(layout),
      state_(state),
      buffers_(buffers),
      pooled_(pooled),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64) {}

void BlockRunner::start(std::size_t block, std::size_t valid) {
  block_ = block;
  valid_ = valid;
  if (layout_ != nullptr) place_ = &layout_->blocks[block];
  if (pass_.indexed) number_elements();
  load_stored();
}

void BlockRunner::run(std::size_t from, std::size_t to) {
  for (std::size_t position = from; position < to; ++position) run(position);
  if (to != pass_.before_pools()) return;
  for (const int number : pass_.writes) write(number);
}

float* BlockRunner::floats_for(int number) {
  const int place = pass_.places[size(number)];
  float* rows = place == kStored ? state_.values[size(number)].rows.data() + block_ * channels(number) * lanes_
                                 : buffers_.floats.data() + size(place) * lanes_;
  buffers_.float_values[size(number)] = rows;
  return rows;
}

std::uint64_t* BlockRunner::bits_for(int number) {
  const int place = pass_.places[size(number)];
  std::uint64_t* slices = place == kStored
                              ? state_.values[size(number)].slices.data() + block_ * channels(number) * width_
                              : buffers_.bits.data() + size(place) * width_;
  buffers_.bit_values[size(number)] = slices;
  return slices;
}

void BlockRunner::run(std::size_t position) {
  const std::size_t index = size(pass_.operations[position]);
  const Operation& operation = network_.operations[index];
  const PreparedOperation& prepared = plan_.operations[index];
  const int sign = pass_.signs[position];
  if (sign == kSkipped) return;
  if (pass_.by_elements[size(operation.out[0])]) {
    if (operation.op == Op::bilinear_float) count_agreements(operation, prepared);
    return;
  }
  switch (operation.op) {
    case Op::points:
      buffers_.float_values[size(operation.out[0])] =
          cloud_.rows.data() + block_ * lanes_ * size(network_.channels);
      break;
    case Op::gather: gather(operation); break;
    case Op::broadcast: broadcast(operation); break;
    case Op::concat: concat(operation, prepared); break;
    case Op::slice: slice(operation); break;
    case Op::add:
    case Op::subtract:
    case Op::multiply:
    case Op::divide:
      if (sign >= 0) {
        difference_signs(operation, network_.operations[size(sign)]);
      } else {
        binary(operation);
      }
      break;
    case Op::affine: affine(operation, prepared); break;
    case Op::function:
      kernels_.function(static_cast<int>(operation.function), operation.slope, floats(operation.in[0]),
                        operation.inputs * kernels_.lanes, floats_for(operation.out[0]));
      break;
    case Op::dense: dense(operation, prepared, sign); break;
    case Op::transform: transform(operation, index, sign); break;
    case Op::mix: mix(operation, sign, pass_.flattened[position]); break;
    case Op::sign: binarize(operation); break;
    case Op::mean_abs: {
      const std::size_t inputs = size(operation.inputs / operation.groups);
      float* means = floats_for(operation.out[0]);
      for (std::size_t g = 0; g < size(operation.groups); ++g) {
        kernels_.mean_abs(floats(operation.in[0]) + g * inputs * lanes_, static_cast<int>(inputs), means + g * lanes_);
      }
      break;
    }
    case Op::bilinear: bilinear(operation, prepared, index); break;
    case Op::bilinear_float: bilinear_float(operation, prepared); break;
    case Op::pool:
    case Op::bilinear_pool:
    case Op::outer:
    case Op::flatten:
      if (layout_ == nullptr) {
        reduce_set(operation, index, position);
      } else {
        reduce_groups(operation, index, position);
      }
      break;
    default: throw std::logic_error("not an operation of a pass");
  }
}

// A single channel is used with all channels of the other operand.
void BlockRunner::binary(const Operation& operation) {
  const int op = static_cast<int>(operation.op) - static_cast<int>(Op::add);
  const float *a = floats(operation.in[0]), *b = floats(operation.in[1]);
  float* out = floats_for(operation.out[0]);
  const std::size_t first = channels(operation.in[0]), second = channels(operation.in[1]);
  if (first == second) return kernels_.binary(op, a, b, operation.outputs * kernels_.lanes, out);
  for (std::size_t k = 0; k < size(operation.outputs); ++k) {
    kernels_.binary(op, first == 1 ? a : a + k * lanes_, second == 1 ? b : b + k * lanes_, kernels_.lanes,
                    out + k * lanes_);
  }
}

void BlockRunner::affine(const Operation& operation, const PreparedOperation& prepared) {
  const float* x = floats(operation.in[0]);
  float* out = floats_for(operation.out[0]);
  for (std::size_t k = 0; k < size(operation.outputs); ++k) {
    kernels_.line(x + k * lanes_, prepared.vector.a[k], prepared.vector.b[k], activation_code(operation.activation),
                  kernels_.lanes, out + k * lanes_);
  }
}

// `sign`: the operation that reads only the signs, computed here; or -1.
void BlockRunner::dense(const Operation& operation, const PreparedOperation& prepared, int sign) {
  const int inputs = operation.inputs / operation.groups, outputs = operation.outputs / operation.groups;
  const float* x = floats(operation.in[0]);
  const std::size_t groups = size(operation.groups), in_step = size(inputs), out_step = size(outputs);
  if (sign >= 0) {
    std::uint64_t* slices = bits_for(network_.operations[size(sign)].out[0]);
    for (std::size_t g = 0; g < groups; ++g) {
      kernels_.dense_signs(x + g * in_step * lanes_, inputs, operation.weight.data() + g * in_step * out_step,
                           prepared.bound.data() + g * out_step, prepared.norms.data() + g * out_step, outputs,
                           slices + g * out_step * width_);
    }
    return;
  }
  float* rows = floats_for(operation.out[0]);
  for (std::size_t g = 0; g < groups; ++g) {
    kernels_.dense(x + g * in_step * lanes_, inputs, operation.weight.data() + g * in_step * out_step,
                   operation.bias.data() + g * out_step, outputs, activation_code(operation.activation),
                   rows + g * out_step * lanes_);
  }
}

void BlockRunner::transform(const Operation& operation, std::size_t index, int sign) {
  if (value(operation.in[1]).domain != kCloudDomain) return transform_each(operation);
  const Matrix& matrix = state_.matrices[index];
  const float* x = floats(operation.in[0]);
  if (sign >= 0) {
    kernels_.dense_signs(x, operation.inputs, matrix.transposed.data(), matrix.negative_zeros.data(),
                         matrix.norms.data(), operation.outputs, bits_for(network_.operations[size(sign)].out[0]));
  } else {
    kernels_.dense(x, operation.inputs, matrix.transposed.data(), matrix.negative_zeros.data(), operation.outputs, 0,
                   floats_for(operation.out[0]));
  }
}

// Each element has its own matrix, or each group.
void BlockRunner::transform_each(const Operation& operation) {
  const std::size_t inputs = size(operation.inputs), outputs = size(operation.outputs);
  const float* x = floats(operation.in[0]);
  const bool own = value(operation.in[1]).domain == pass_.domain;
  const float* matrices = own ? floats(operation.in[1]) : state_.values[size(operation.in[1])].elements.data();
  float* out = floats_for(operation.out[0]);
  for (std::size_t m = 0; m < outputs; ++m) {
    for (std::size_t i = 0; i < lanes_; ++i) {
      const auto weight = [&](std::size_t k) {
        const std::size_t at = k * outputs + m;
        return own ? matrices[at * lanes_ + i] : matrices[std::size_t{buffers_.parent[i]} * inputs * outputs + at];
      };
      float sum = x[i] * weight(0);
      for (std::size_t k = 1; k < inputs; ++k) sum += x[k * lanes_ + i] * weight(k);
      out[m * lanes_ + i] = sum;
    }
  }
}

void BlockRunner::binarize(const Operation& operation) {
  const float one = 1.0f, *x = floats(operation.in[0]);
  std::uint64_t* slices = bits_for(operation.out[0]);
  for (std::size_t k = 0; k < size(operation.inputs); ++k) {
    kernels_.dense_signs(x + k * lanes_, 1, &one, &operation.at, nullptr, 1, slices + k * width_);
  }
}

void BlockRunner::bilinear(const Operation& operation, const PreparedOperation& prepared, std::size_t index) {
  const std::size_t groups = size(operation.groups);
  const std::size_t inputs = size(operation.inputs) / groups, outputs = size(operation.outputs) / groups;
  std::uint64_t* out = bits_for(operation.out[0]);
  for (std::size_t g = 0; g < groups; ++g) {
    const Thresholds& thresholds = prepared.cloud.inputs > 0 ? state_.reduced[index] : prepared.thresholds[g];
    kernels_.bilinear(bits(operation.in[0]) + g * inputs * width_, prepared.bitsliced[g].layer(thresholds),
                      buffers_.kernel_scratch.data(), out + g * outputs * width_);
  }
}

void BlockRunner::bilinear_float(const Operation& operation, const PreparedOperation& prepared) {
  const std::size_t groups = size(operation.groups);
  const std::size_t inputs = size(operation.inputs) / groups, outputs = size(operation.outputs) / groups;
  const float* scales = operation.in.size() > 1 ? floats(operation.in[1]) : nullptr;
  float* out = floats_for(operation.out[0]);
  for (std::size_t g = 0; g < groups; ++g) {
    kernels_.bilinear_float(bits(operation.in[0]) + g * inputs * width_,
                            prepared.bitsliced[g].layer(prepared.thresholds[g]),
                            prepared.vector.a.data() + g * outputs, prepared.vector.b.data() + g * outputs,
                            scales == nullptr ? nullptr : scales + g * lanes_, activation_code(operation.activation),
                            buffers_.kernel_scratch.data(), out + g * outputs * lanes_);
  }
}

}  // namespace bipointnet
