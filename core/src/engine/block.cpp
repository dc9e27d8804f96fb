#include "engine/block.h"

#include <algorithm>
#include <stdexcept>

#include "format/bits.h"

namespace bipointnet {

BlockRunner::BlockRunner(const Network& network, const Plan& plan, const Kernels& kernels, State& state,
                         BlockBuffers& buffers, Pooled& pooled)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      state_(state),
      buffers_(buffers),
      pooled_(pooled),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64) {}

void BlockRunner::run(std::size_t from, std::size_t to, std::size_t block, std::size_t valid) {
  block_ = block;
  valid_ = valid;
  bits_ = buffers_.bits.data();
  for (std::size_t i = from; i <= to; ++i) {
    const Layer& layer = network_.layers[i];
    const PreparedLayer& prepared = plan_.layers[i];
    const bool signs = fuses_sign(i, to);
    switch (layer.op) {
      case Op::points: break;
      case Op::transform: transform(layer, signs ? output_bits(i + 1, to) : nullptr); break;
      case Op::dense: dense(i, signs ? output_bits(i + 1, to) : nullptr); break;
      case Op::sign_scaled:
        kernels_.mean_abs(buffers_.floats.data(), layer.inputs, buffers_.scales.data());
        [[fallthrough]];
      case Op::sign:
      case Op::compare: {
        std::uint64_t* bits = output_bits(i, to);
        binarize(size(layer.inputs), layer.at, bits);
        bits_ = bits;
        break;
      }
      case Op::keep:
        if (prepared.reads_floats) {
          binarize(size(layer.inputs), 0.0f, kept_block(layer.kept));
        } else if (bits_ != kept_block(layer.kept)) {
          std::copy_n(bits_, size(layer.inputs) * width_, kept_block(layer.kept));
        }
        break;
      case Op::join: join(i); break;
      case Op::bilinear: bilinear(i, output_bits(i, to)); break;
      case Op::bilinear_float:
      case Op::bilinear_scaled:
        kernels_.bilinear_float(
            bits_, prepared.bitsliced->layer(prepared.thresholds), prepared.vector.a.data(), prepared.vector.b.data(),
            layer.op == Op::bilinear_scaled ? buffers_.scales.data() : nullptr, activation_code(layer.activation),
            buffers_.kernel_scratch.data(), buffers_.floats.data());
        break;
      case Op::bilinear_pool:
      case Op::pool: pool(i); return;
      default: throw std::logic_error("vector operation in a pass over points");
    }
    record(i);
    if (signs) record(++i);
  }
}

// Whether a float layer and the sign after it are one kernel, which does not store the floats.
bool BlockRunner::fuses_sign(std::size_t index, std::size_t to) const {
  const Layer& layer = network_.layers[index];
  if (index == to || network_.layers[index + 1].op != Op::sign) return false;
  if (layer.op == Op::transform) return state_.matrices[size(layer.matrix)].size == size(layer.inputs);
  return layer.op == Op::dense && layer.activation != Activation::relu;
}

// Memory for the bits that operation `index` writes: other memory than that of the current bits and, if the next
// operation keeps them, the memory of the kept value.
std::uint64_t* BlockRunner::output_bits(std::size_t index, std::size_t to) {
  if (index < to && network_.layers[index + 1].op == Op::keep) return kept_block(network_.layers[index + 1].kept);
  return bits_ == buffers_.bits.data() ? buffers_.more_bits.data() : buffers_.bits.data();
}

std::uint64_t* BlockRunner::kept_block(int number) {
  return state_.kept_slices.data() + (block_ * plan_.kept_width + plan_.kept_columns[size(number)]) * width_;
}

void BlockRunner::binarize(std::size_t channels, float at, std::uint64_t* slices) {
  const float one = 1.0f;
  for (std::size_t k = 0; k < channels; ++k) {
    kernels_.dense_signs(buffers_.floats.data() + k * lanes_, 1, &one, &at, nullptr, 1, slices + k * width_);
  }
}

// Sets the bits of the lanes that hold points.
void BlockRunner::set_mask() {
  for (std::size_t word = 0; word < width_; ++word) {
    const std::size_t left = valid_ > word * 64 ? valid_ - word * 64 : 0;
    buffers_.mask[word] = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
  }
}

void BlockRunner::transform(const Layer& layer, std::uint64_t* signs) {
  const Matrix& matrix = state_.matrices[size(layer.matrix)];
  const int columns = static_cast<int>(matrix.size);
  if (signs != nullptr) {
    kernels_.dense_signs(buffers_.floats.data(), columns, matrix.transposed.data(), matrix.negative_zeros.data(),
                         matrix.norms.data(), columns, signs);
    bits_ = signs;
    if (state_.trace == nullptr) return;
  }
  kernels_.dense(buffers_.floats.data(), columns, matrix.transposed.data(), matrix.negative_zeros.data(), columns, 0,
                 buffers_.more_floats.data());
  std::copy_n(buffers_.more_floats.data(), matrix.size * lanes_, buffers_.floats.data());
}

void BlockRunner::dense(std::size_t index, std::uint64_t* signs) {
  const Layer& layer = network_.layers[index];
  if (signs != nullptr) {
    kernels_.dense_signs(buffers_.floats.data(), layer.inputs, layer.weight.data(), plan_.layers[index].bound.data(),
                         plan_.layers[index].norms.data(), layer.outputs, signs);
    bits_ = signs;
    if (state_.trace == nullptr) return;
  }
  kernels_.dense(buffers_.floats.data(), layer.inputs, layer.weight.data(), layer.bias.data(), layer.outputs,
                 activation_code(layer.activation), buffers_.more_floats.data());
  std::swap(buffers_.floats, buffers_.more_floats);
}

// Concatenates the kept values of this block. Vectors are left out if the next layer reads them separately.
void BlockRunner::join(std::size_t index) {
  const std::vector<int>& joined = network_.layers[index].joined;
  if (joins_in_place(network_, index)) {
    const auto of_points = [&](int number) { return network_.kept[size(number)].on_points; };
    bits_ = kept_block(*std::find_if(joined.begin(), joined.end(), of_points));
    return;
  }
  const bool with_vectors = !reads_join_in_parts(network_, index);
  std::uint64_t* slices = buffers_.bits.data();
  for (const int number : joined) {
    const Kept& kept = network_.kept[size(number)];
    const std::size_t words = size(kept.width) * width_;
    if (kept.on_points) {
      slices = std::copy_n(kept_block(number), words, slices);
    } else if (with_vectors) {
      for (std::size_t k = 0; k < size(kept.width); ++k) {
        const bool bit = get_bit(state_.kept[size(number)].data(), k);
        slices = std::fill_n(slices, width_, bit ? ~std::uint64_t{0} : 0);
      }
    }
  }
}

void BlockRunner::bilinear(std::size_t index, std::uint64_t* out) {
  const PreparedLayer& prepared = plan_.layers[index];
  const Thresholds& thresholds = prepared.joined.inputs > 0 ? state_.joined : prepared.thresholds;
  kernels_.bilinear(bits_, prepared.bitsliced->layer(thresholds), buffers_.kernel_scratch.data(), out);
  bits_ = out;
}

void BlockRunner::pool(std::size_t index) {
  const Layer& layer = network_.layers[index];
  set_mask();
  if (layer.op == Op::bilinear_pool) {
    pool_bits(index);
  } else if (layer.pool == Pool::max) {
    kernels_.update_max(buffers_.floats.data(), layer.outputs, static_cast<int>(valid_), pooled_.largest.data());
  } else {
    pooled_.add_floats(buffers_.floats.data(), valid_, lanes_);
  }
}

void BlockRunner::pool_bits(std::size_t index) {
  const Layer& layer = network_.layers[index];
  const PreparedLayer& prepared = plan_.layers[index];
  const bool keeps = layer.kept >= 0;
  if (layer.pool == Pool::mean) {
    pooled_.count_ones(bits_, buffers_.mask.data(), width_);
    if (keeps) {
      kernels_.bilinear(bits_, prepared.bitsliced->layer(prepared.thresholds), buffers_.kernel_scratch.data(),
                        kept_block(layer.kept));
    }
    return;
  }
  const BitslicedLayer pool = prepared.bitsliced->layer((*state_.pools)[index]);
  if (keeps) {
    kernels_.bilinear_and_pool(bits_, prepared.bitsliced->layer(prepared.thresholds), pool, buffers_.mask.data(),
                               buffers_.kernel_scratch.data(), kept_block(layer.kept), pooled_.fired.data());
  } else {
    kernels_.bilinear_pool(bits_, pool, buffers_.mask.data(), buffers_.kernel_scratch.data(), pooled_.fired.data());
  }
}

// Appends the value after an operation to the trace, point by point.
void BlockRunner::record(std::size_t index) {
  if (state_.trace == nullptr) return;
  const Layer& layer = network_.layers[index];
  Value& value = (*state_.trace)[index];
  value.bits = !plan_.layers[index].writes_floats;
  value.columns = size(layer.outputs);
  value.rows += valid_;
  for (std::size_t p = 0; p < valid_; ++p) {
    if (layer.op == Op::join) {
      record_joined(layer, p, value.numbers);
    } else if (value.bits) {
      for (std::size_t k = 0; k < value.columns; ++k) {
        value.numbers.push_back(get_bit(bits_ + k * width_, p));
      }
    } else {
      for (std::size_t k = 0; k < value.columns; ++k) value.numbers.push_back(buffers_.floats[k * lanes_ + p]);
    }
  }
}

// All kept values that are joined at a point, also those that the next layer reads separately.
void BlockRunner::record_joined(const Layer& layer, std::size_t point, std::vector<float>& numbers) {
  for (const int number : layer.joined) {
    const Kept& kept = network_.kept[size(number)];
    for (std::size_t k = 0; k < size(kept.width); ++k) {
      numbers.push_back(kept.on_points ? get_bit(kept_block(number) + k * width_, point)
                                       : get_bit(state_.kept[size(number)].data(), k));
    }
  }
}

}  // namespace bipointnet
