#include "engine/block.h"

#include <algorithm>
#include <stdexcept>

#include "format/bits.h"

namespace bipointnet {
BlockRunner::BlockRunner(const Network& network, const Plan& plan, const Kernels& kernels, State& state,
                         Scratch& scratch, Pooled& pooled)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      state_(state),
      scratch_(scratch),
      pooled_(pooled),
      lanes_(size(kernels.lanes)),
      width_(lanes_ / 64) {}

void BlockRunner::run(std::size_t from, std::size_t to, std::size_t block, std::size_t valid) {
  block_ = block;
  valid_ = valid;
  bits_ = scratch_.bits.data();
  for (std::size_t i = from; i <= to; ++i) {
    const Layer& layer = network_.layers[i];
    const Prepared& prepared = plan_.layers[i];
    const bool signs = then_sign(i, to);
    switch (layer.op) {
      case Op::points: break;
      case Op::transform: transform(layer, signs ? room_for_bits(i + 1, to) : nullptr); break;
      case Op::dense: dense(i, signs ? room_for_bits(i + 1, to) : nullptr); break;
      case Op::sign_scaled:
        kernels_.scales(scratch_.floats.data(), layer.inputs, scratch_.scales.data());
        [[fallthrough]];
      case Op::sign:
      case Op::compare: {
        std::uint64_t* bits = room_for_bits(i, to);
        take_bits(size(layer.inputs), layer.at, bits);
        bits_ = bits;
        break;
      }
      case Op::keep:
        if (prepared.of_floats) {
          take_bits(size(layer.inputs), 0.0f, kept_block(layer.kept));
        } else if (bits_ != kept_block(layer.kept)) {
          std::copy_n(bits_, size(layer.inputs) * width_, kept_block(layer.kept));
        }
        break;
      case Op::join: join(i); break;
      case Op::bilinear: bilinear(i, room_for_bits(i, to)); break;
      case Op::bilinear_float:
      case Op::bilinear_scaled:
        kernels_.lines(bits_, prepared.sliced->with(prepared.starts), prepared.vector.a.data(),
                       prepared.vector.b.data(), layer.op == Op::bilinear_scaled ? scratch_.scales.data() : nullptr,
                       activation_code(layer.activation), scratch_.room.data(), scratch_.floats.data());
        break;
      case Op::bilinear_pool:
      case Op::pool: pool(i); return;
      default: throw std::logic_error("an operation on vectors in a pass over points");
    }
    record(i);
    if (signs) record(++i);
  }
}

// Whether the sign behind a float layer is taken of its sums as they come, without writing them down.
bool BlockRunner::then_sign(std::size_t index, std::size_t to) const {
  const Layer& layer = network_.layers[index];
  if (index == to || network_.layers[index + 1].op != Op::sign) return false;
  if (layer.op == Op::transform) return state_.matrices[size(layer.matrix)].size == size(layer.inputs);
  return layer.op == Op::dense && layer.activation != Activation::relu;
}

// For the bits that operation `index` leaves: not where the current ones are, and right where they will be kept, if so.
std::uint64_t* BlockRunner::room_for_bits(std::size_t index, std::size_t to) {
  if (index < to && network_.layers[index + 1].op == Op::keep) return kept_block(network_.layers[index + 1].kept);
  return bits_ == scratch_.bits.data() ? scratch_.more_bits.data() : scratch_.bits.data();
}

std::uint64_t* BlockRunner::kept_block(int number) {
  return state_.kept_slices.data() + (block_ * plan_.kept_width + plan_.kept_columns[size(number)]) * width_;
}

void BlockRunner::take_bits(std::size_t channels, float at, std::uint64_t* slices) {
  const float one = 1.0f;
  for (std::size_t k = 0; k < channels; ++k) {
    kernels_.signs(scratch_.floats.data() + k * lanes_, 1, &one, &at, nullptr, 1, slices + k * width_);
  }
}

// The lanes that hold points.
void BlockRunner::set_mask() {
  for (std::size_t word = 0; word < width_; ++word) {
    const std::size_t left = valid_ > word * 64 ? valid_ - word * 64 : 0;
    scratch_.mask[word] = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
  }
}

void BlockRunner::transform(const Layer& layer, std::uint64_t* signs) {
  const Matrix& matrix = state_.matrices[size(layer.matrix)];
  const int columns = static_cast<int>(matrix.size);
  if (signs != nullptr) {
    kernels_.signs(scratch_.floats.data(), columns, matrix.transposed.data(), matrix.nothing.data(),
                   matrix.sizes.data(), columns, signs);
    bits_ = signs;
    if (state_.trace == nullptr) return;
  }
  kernels_.dense(scratch_.floats.data(), columns, matrix.transposed.data(), matrix.nothing.data(), columns, 0,
                 scratch_.more_floats.data());
  std::copy_n(scratch_.more_floats.data(), matrix.size * lanes_, scratch_.floats.data());
}

void BlockRunner::dense(std::size_t index, std::uint64_t* signs) {
  const Layer& layer = network_.layers[index];
  if (signs != nullptr) {
    kernels_.signs(scratch_.floats.data(), layer.inputs, layer.weight.data(), plan_.layers[index].bound.data(),
                   plan_.layers[index].sizes.data(), layer.outputs, signs);
    bits_ = signs;
    if (state_.trace == nullptr) return;
  }
  kernels_.dense(scratch_.floats.data(), layer.inputs, layer.weight.data(), layer.bias.data(), layer.outputs,
                 activation_code(layer.activation), scratch_.more_floats.data());
  std::swap(scratch_.floats, scratch_.more_floats);
}

// The kept values of this block, one behind the other; vectors only where the next layer does not have them apart.
void BlockRunner::join(std::size_t index) {
  const std::vector<int>& joined = network_.layers[index].joined;
  if (joins_in_place(network_, index)) {
    const auto of_points = [&](int number) { return network_.kept[size(number)].on_points; };
    bits_ = kept_block(*std::find_if(joined.begin(), joined.end(), of_points));
    return;
  }
  const bool with_vectors = !reads_join_in_parts(network_, index);
  std::uint64_t* slices = scratch_.bits.data();
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
  const Prepared& prepared = plan_.layers[index];
  const Starts& starts = prepared.joined.inputs > 0 ? state_.joined : prepared.starts;
  kernels_.layer(bits_, prepared.sliced->with(starts), scratch_.room.data(), out);
  bits_ = out;
}

void BlockRunner::pool(std::size_t index) {
  const Layer& layer = network_.layers[index];
  set_mask();
  if (layer.op == Op::bilinear_pool) {
    pool_bits(index);
  } else if (layer.pool == Pool::max) {
    kernels_.raise(scratch_.floats.data(), layer.outputs, static_cast<int>(valid_), pooled_.largest.data());
  } else {
    pooled_.add_floats(scratch_.floats.data(), valid_, lanes_);
  }
}

void BlockRunner::pool_bits(std::size_t index) {
  const Layer& layer = network_.layers[index];
  const Prepared& prepared = plan_.layers[index];
  const bool keeps = layer.kept >= 0;
  if (layer.pool == Pool::mean) {
    pooled_.count_ones(bits_, scratch_.mask.data(), width_);
    if (keeps) {
      kernels_.layer(bits_, prepared.sliced->with(prepared.starts), scratch_.room.data(), kept_block(layer.kept));
    }
    return;
  }
  const Sliced pool = prepared.sliced->with((*state_.pools)[index]);
  if (keeps) {
    kernels_.layer_and_pool(bits_, prepared.sliced->with(prepared.starts), pool, scratch_.mask.data(),
                            scratch_.room.data(), kept_block(layer.kept), pooled_.fired.data());
  } else {
    kernels_.pool(bits_, pool, scratch_.mask.data(), scratch_.room.data(), pooled_.fired.data());
  }
}

// The value after an operation, point by point.
void BlockRunner::record(std::size_t index) {
  if (state_.trace == nullptr) return;
  const Layer& layer = network_.layers[index];
  Value& value = (*state_.trace)[index];
  value.bits = !plan_.layers[index].to_floats;
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
      for (std::size_t k = 0; k < value.columns; ++k) value.numbers.push_back(scratch_.floats[k * lanes_ + p]);
    }
  }
}

// All of what is joined at a point, whatever of it the next layer reads there.
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
