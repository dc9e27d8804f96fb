// How values get into a block: gathered, broadcast and loaded element by element.
#include <algorithm>

#include "engine/block.h"
#include "format/bits.h"

namespace bipointnet {

// For each lane: the number of its element, of its center, and of the element of the source that its index names. Lanes
// without an element repeat others; of groups, `like` says which.
void BlockRunner::number_elements() {
  const int index_value = plan_.index_of[size(pass_.domain)];
  const std::uint32_t* index = index_value < 0 ? nullptr : state_.values[size(index_value)].indices.data();
  std::uint32_t *own = buffers_.own.data(), *parent = buffers_.parent.data(), *source = buffers_.source.data();
  if (layout_ == nullptr) {
    const std::size_t first = block_ * lanes_;
    for (std::size_t i = 0; i < lanes_; ++i) {
      own[i] = static_cast<std::uint32_t>(first + (i < valid_ ? i : 0));
      parent[i] = 0;
      if (index != nullptr) source[i] = index[own[i]];
    }
    return;
  }
  const std::size_t slots = layout_->slots, span = place_->span;
  const auto put = [&](std::size_t at, std::size_t number, std::size_t slot, std::size_t like) {
    own[at] = static_cast<std::uint32_t>(number * slots + slot);
    parent[at] = static_cast<std::uint32_t>(number);
    source[at] = index[own[at]];
    buffers_.like[at] = static_cast<std::uint32_t>(like);
  };
  if (place_->groups * span < lanes_) {  // lanes without a group
    put(0, group(0), place_->slot, 0);
    std::fill_n(own + 1, lanes_ - 1, own[0]);
    std::fill_n(parent + 1, lanes_ - 1, parent[0]);
    std::fill_n(source + 1, lanes_ - 1, source[0]);
    std::fill_n(buffers_.like.data(), lanes_, 0u);
  }
  for (std::size_t g = 0; g < place_->groups; ++g) {
    const std::size_t number = group(g), start = lane(g);
    for (std::size_t j = 0; j < span; ++j) {
      const std::size_t slot = place_->slot + j;
      put(start + j, number, slot < slots ? slot : 0, slot < slots ? start + j : start);
    }
  }
}

// Values in blocks stay where they are; values that are stored element by element are put into the buffers.
void BlockRunner::load_stored() {
  for (std::size_t i = 0; i < pass_.loads.size(); ++i) {
    const int number = pass_.loads[i];
    const Storage& stored = state_.values[size(number)];
    if (pass_.load_signs[i] >= 0) {
      load_signs(number, network_.operations[size(pass_.load_signs[i])]);
    } else if (!stored.rows.empty() && value(number).kind == Kind::floats) {
      buffers_.float_values[size(number)] = stored.rows.data() + block_ * channels(number) * lanes_;
    } else if (!stored.slices.empty() && value(number).kind == Kind::bits) {
      buffers_.bit_values[size(number)] = stored.slices.data() + block_ * channels(number) * width_;
    } else {
      load(number, buffers_.own.data(), number);
    }
  }
}

// Writes rows of bits as slices. row(lane, words) writes the words of the row of a lane.
template <class Row>
void BlockRunner::put_rows(std::size_t channels, std::uint64_t* slices, const Row& row) {
  const std::size_t words = words_for(channels);
  buffers_.rows.resize(std::max(buffers_.rows.size(), 64 * words));
  std::uint64_t square[64];
  for (std::size_t word = 0; word < width_; ++word) {
    for (std::size_t i = 0; i < 64; ++i) row(word * 64 + i, buffers_.rows.data() + i * words);
    for (std::size_t first = 0; first < words; ++first) {
      for (std::size_t i = 0; i < 64; ++i) square[i] = buffers_.rows[i * words + first];
      kernels_.transpose_bits(square);
      const std::size_t end = std::min<std::size_t>(64, channels - first * 64);
      for (std::size_t k = 0; k < end; ++k) slices[(first * 64 + k) * width_ + word] = square[k];
    }
  }
}

// Writes the elements of a stored value that `index` names, one per lane, into the buffer of value `to`.
void BlockRunner::load(int number, const std::uint32_t* index, int to) {
  const Storage& stored = state_.values[size(number)];
  if (value(number).kind == Kind::floats) {
    kernels_.gather_floats(stored.elements.data(), value(number).channels, index, floats_for(to));
  } else {
    load_bits(number, index, to);
  }
}

void BlockRunner::load_bits(int number, const std::uint32_t* index, int to) {
  const Storage& stored = state_.values[size(number)];
  const std::size_t words = words_for(channels(number));
  put_rows(channels(number), bits_for(to), [&](std::size_t lane, std::uint64_t* row) {
    std::copy_n(stored.words.data() + std::size_t{index[lane]} * words, words, row);
  });
}

// The signs of a stored value, without its floats.
void BlockRunner::load_signs(int number, const Operation& sign) {
  if (plan_.stored_sign[size(number)] >= 0) return load_bits(number, buffers_.own.data(), sign.out[0]);
  const float* elements = state_.values[size(number)].elements.data();
  put_rows(channels(number), bits_for(sign.out[0]), [&](std::size_t lane, std::uint64_t* row) {
    kernels_.compare(elements + buffers_.own[lane] * channels(number), value(number).channels, sign.at, row);
  });
}

// The signs of a difference of two gathered values, without the floats.
void BlockRunner::difference_signs(const Operation& operation, const Operation& sign) {
  const float* elements[2];
  const std::uint32_t* index[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const Operation& moves = network_.operations[size(plan_.producer[size(operation.in[i])])];
    elements[i] = state_.values[size(moves.in[0])].elements.data();
    index[i] = moves.op == Op::gather ? buffers_.source.data() : buffers_.parent.data();
  }
  const std::size_t wide = channels(operation.out[0]);
  put_rows(wide, bits_for(sign.out[0]), [&](std::size_t lane, std::uint64_t* row) {
    kernels_.difference_signs(elements[0] + index[0][lane] * wide, elements[1] + index[1][lane] * wide,
                              static_cast<int>(wide), row);
  });
}

// The signs of the mixed elements in buffers_.more_elements. Lanes after the last slot repeat the first one.
void BlockRunner::mixed_signs(const Operation& sign, std::size_t wide) {
  put_rows(wide, bits_for(sign.out[0]), [&](std::size_t lane, std::uint64_t* row) {
    kernels_.compare(buffers_.more_elements.data() + buffers_.like[lane] * wide, static_cast<int>(wide), sign.at, row);
  });
}

void BlockRunner::gather(const Operation& operation) {
  load(operation.in[0], buffers_.source.data(), operation.out[0]);
}

void BlockRunner::broadcast(const Operation& operation) {
  const int from = operation.in[0];
  if (value(from).domain != kCloudDomain) return load(from, buffers_.parent.data(), operation.out[0]);
  const Storage& stored = state_.values[size(from)];
  if (value(from).kind == Kind::floats) {
    float* rows = floats_for(operation.out[0]);
    for (std::size_t k = 0; k < channels(from); ++k) std::fill_n(rows + k * lanes_, lanes_, stored.elements[k]);
  } else {
    std::uint64_t* slices = bits_for(operation.out[0]);
    for (std::size_t k = 0; k < channels(from); ++k) {
      std::fill_n(slices + k * width_, width_, get_bit(stored.words.data(), k) ? ~std::uint64_t{0} : 0);
    }
  }
}

void BlockRunner::concat(const Operation& operation, const PreparedOperation& prepared) {
  if (value(operation.out[0]).kind == Kind::floats) {
    float* rows = floats_for(operation.out[0]);
    for (const int part : prepared.parts) rows = std::copy_n(floats(part), channels(part) * lanes_, rows);
  } else {
    std::uint64_t* slices = bits_for(operation.out[0]);
    for (const int part : prepared.parts) slices = std::copy_n(bits(part), channels(part) * width_, slices);
  }
}

// A slice is a part of its operand, unless it is stored itself.
void BlockRunner::slice(const Operation& operation) {
  const int from = operation.in[0], out = operation.out[0];
  const bool stored = pass_.places[size(out)] == kStored;
  if (value(out).kind == Kind::floats) {
    const float* part = floats(from) + size(operation.from) * lanes_;
    if (stored) {
      std::copy_n(part, channels(out) * lanes_, floats_for(out));
    } else {
      buffers_.float_values[size(out)] = part;
    }
  } else {
    const std::uint64_t* part = bits(from) + size(operation.from) * width_;
    if (stored) {
      std::copy_n(part, channels(out) * width_, bits_for(out));
    } else {
      buffers_.bit_values[size(out)] = part;
    }
  }
}

}  // namespace bipointnet
