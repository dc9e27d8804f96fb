// Operations that reduce the elements of a domain to its parent.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/block.h"
#include "engine/delta.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();
constexpr float kLargestScale = 1e30f;  // a scale up to this, times any z, is finite

// Puts `count` bits into a row of words, whose bits there are zero.
void put_bits(std::uint64_t* words, std::size_t at, std::size_t count, std::uint64_t bits) {
  words[at / 64] |= bits << at % 64;
  if (at % 64 + count > 64) words[at / 64 + 1] |= bits >> (64 - at % 64);
}

std::uint64_t low_bits(std::size_t count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; }

}  // namespace

// Sets the bits of the lanes that hold elements.
void BlockRunner::set_mask() {
  for (std::size_t word = 0; word < width_; ++word) {
    buffers_.mask[word] = valid_ > word * 64 ? low_bits(valid_ - word * 64) : 0;
  }
}

void BlockRunner::reduce_set(const Operation& operation, std::size_t index, std::size_t position) {
  Pooled& pooled = pooled_[position];
  set_mask();
  if (operation.op == Op::bilinear_pool) {
    pool_bits_of_set(operation, index, pooled);
  } else if (operation.op == Op::outer) {
    outer(operation);
  } else if (operation.pool == Pool::max) {
    max_floats_of_set(operation, pass_.counted[position], pooled);
  } else {
    pooled.add_floats(floats(operation.in[0]), valid_, lanes_);
  }
}

// `counted`: the layer whose floats are pooled without being stored, or -1.
void BlockRunner::max_floats_of_set(const Operation& operation, int counted, Pooled& pooled) {
  const int points = static_cast<int>(valid_);
  if (counted >= 0) {
    const Operation& layer = network_.operations[size(counted)];
    const PreparedOperation& prepared = plan_.operations[size(counted)];
    const float* scales = layer.in.size() > 1 ? floats(layer.in[1]) : nullptr;
    const auto small = [](float scale) { return std::abs(scale) <= kLargestScale; };
    const bool pays = lanes_ > 64;  // compilers vectorize the two steps of the portable kernels, but not both in one
    if (pays && (scales == nullptr || std::all_of(scales, scales + valid_, small))) {
      return kernels_.bilinear_float_max(bits(layer.in[0]), prepared.bitsliced[0].layer(prepared.thresholds[0]),
                                         prepared.vector.a.data(), prepared.vector.b.data(), scales,
                                         activation_code(layer.activation), points, buffers_.kernel_scratch.data(),
                                         pooled.largest.data());
    }
    bilinear_float(layer, prepared);
  }
  kernels_.update_max(floats(operation.in[0]), operation.inputs, points, pooled.largest.data());
}

void BlockRunner::pool_codes(std::size_t position, const CodeSet& rows, std::size_t first) {
  const std::size_t index = size(pass_.operations[position]);
  const Operation& operation = network_.operations[index];
  const std::size_t count = std::min(lanes_, rows.size() - first);
  if (few(count)) {
    const PreparedOperation& prepared = plan_.operations[index];
    return kernels_.bilinear_pool_rows(rows.code(first), static_cast<int>(count),
                                       prepared.bitsliced[0].layer(*state_.pools[index]), prepared.tiles.data(),
                                       pooled_[position].fired.data());
  }
  valid_ = count;
  buffers_.rows.resize(std::max(buffers_.rows.size(), size(operation.inputs) * width_));
  rows.load(first, width_, buffers_.rows.data());
  buffers_.bit_values[size(operation.in[0])] = buffers_.rows.data();
  reduce_set(operation, index, position);
}

void BlockRunner::second_result(const Operation& operation, const PreparedOperation& prepared) {
  if (operation.out.size() == 1) return;
  kernels_.bilinear(bits(operation.in[0]), prepared.bitsliced[0].layer(prepared.thresholds[0]),
                    buffers_.kernel_scratch.data(), bits_for(operation.out[1]));
}

void BlockRunner::pool_bits_of_set(const Operation& operation, std::size_t index, Pooled& pooled) {
  const PreparedOperation& prepared = plan_.operations[index];
  const std::uint64_t* slices = bits(operation.in[0]);
  if (operation.pool == Pool::mean) {
    pooled.count_ones(slices, buffers_.mask.data(), width_);
    return second_result(operation, prepared);
  }
  const BitslicedLayer pool = prepared.bitsliced[0].layer(*state_.pools[index]);
  if (operation.out.size() == 1) {
    kernels_.bilinear_pool(slices, pool, buffers_.mask.data(), buffers_.kernel_scratch.data(), pooled.fired.data());
  } else {
    kernels_.bilinear_and_pool(slices, prepared.bitsliced[0].layer(prepared.thresholds[0]), pool, buffers_.mask.data(),
                               buffers_.kernel_scratch.data(), bits_for(operation.out[1]), pooled.fired.data());
  }
}

void BlockRunner::reduce_groups(const Operation& operation, std::size_t index, std::size_t position) {
  switch (operation.op) {
    case Op::outer: return outer(operation);
    case Op::flatten: return flatten(operation);
    case Op::pool: return pool_floats_of_groups(operation, index, pass_.counted[position]);
    default:
      if (operation.pool == Pool::max) {
        pool_bits_of_groups(operation, index);
      } else {
        mean_bits_of_groups(operation, index);
      }
      second_result(operation, plan_.operations[index]);
  }
}

// The number of elements that a pool counts in a group.
std::size_t BlockRunner::count_of(const Operation& operation, std::size_t index, std::size_t number) const {
  if (operation.over == Over::points) return layout_->slots;
  if (operation.over == Over::distinct) return state_.distinct[index][number];
  return state_.values[size(plan_.index_of[size(pass_.domain)])].counts[number];
}

// How many of the first `total` elements of a group are in this block.
std::size_t BlockRunner::elements_here(std::size_t total) const {
  return total > place_->slot ? std::min(place_->span, total - place_->slot) : 0;
}

void BlockRunner::pool_floats_of_groups(const Operation& operation, std::size_t index, int counted) {
  const std::size_t wide = size(operation.inputs);
  Storage& result = state_.values[size(operation.out[0])];
  const bool last = place_->last;
  if (operation.pool != Pool::max) {
    // A group that is larger than a block keeps its sums between blocks, which are whole runs.
    std::vector<double>& sums = buffers_.sums[index];
    sums.resize(wide);
    for (std::size_t g = 0; g < place_->groups; ++g) {
      const std::size_t n = count_of(operation, index, group(g)), here = elements_here(n);
      const double divisor = operation.pool == Pool::mean ? static_cast<double>(n) : 1.0;
      for (std::size_t k = 0; k < wide; ++k) {
        RunSum sum(continues() ? sums[k] : 0);
        for (std::size_t j = 0; j < here; ++j) sum.add(floats(operation.in[0])[k * lanes_ + lane(g) + j]);
        sums[k] = sum.total();
        if (last) result.elements[group(g) * wide + k] = static_cast<float>(sums[k] / divisor);
      }
    }
    return;
  }
  if (counted >= 0) count_largest(network_.operations[size(counted)], plan_.operations[size(counted)]);
  for (std::size_t g = 0; g < place_->groups; ++g) {
    float* largest = result.elements.data() + group(g) * wide;
    if (!continues()) std::fill_n(largest, wide, kLeast);
    if (counted >= 0) {
      take_counted(network_.operations[size(counted)], plan_.operations[size(counted)], g, largest);
    } else {
      kernels_.max_group(floats(operation.in[0]) + lane(g), operation.inputs, static_cast<int>(place_->span), largest);
    }
    if (!last) continue;
    const float shift = operation.shifted ? shift_of(count_of(operation, index, group(g))) : 0;
    for (std::size_t k = 0; k < wide; ++k) {
      const float most = largest[k] + 0.0f;  // -0 becomes +0
      largest[k] = operation.shifted ? most - shift : most;
    }
  }
}

// The same shift is needed for many groups.
float BlockRunner::shift_of(std::size_t n) {
  if (n != shift_for_) {
    shift_for_ = n;
    shift_ = static_cast<float>(delta(n));
  }
  return shift_;
}

// A layer act(a z + b) with a >= 0 rises with the number of agreements, also in floating point. So its maximum is its
// value for the largest number.
void BlockRunner::count_largest(const Operation& layer, const PreparedOperation& prepared) {
  const std::size_t field = std::min<std::size_t>(place_->span, 64);
  buffers_.largest.resize(std::max(buffers_.largest.size(), lanes_ / field * size(layer.outputs)));
  kernels_.bilinear_max_counts(bits(layer.in[0]), prepared.bitsliced[0].layer(prepared.thresholds[0]),
                               static_cast<int>(field), buffers_.kernel_scratch.data(), buffers_.largest.data(),
                               layer.outputs);
}

void BlockRunner::take_counted(const Operation& layer, const PreparedOperation& prepared, std::size_t g,
                               float* largest) {
  const std::size_t outputs = size(layer.outputs), field = std::min<std::size_t>(place_->span, 64);
  const std::size_t fields = place_->span / field;
  buffers_.elements.resize(std::max(buffers_.elements.size(), outputs));
  for (std::size_t f = g * fields; f < (g + 1) * fields; ++f) {
    kernels_.affine(buffers_.largest.data() + f * outputs, layer.inputs, prepared.vector.a.data(),
                    prepared.vector.b.data(), 1.0f, layer.outputs, activation_code(layer.activation),
                    buffers_.elements.data());
    for (std::size_t m = 0; m < outputs; ++m) {
      largest[m] = largest[m] < buffers_.elements[m] ? buffers_.elements[m] : largest[m];
    }
  }
}

// The thresholds of a pool if all groups of this block have the same number of elements, else null.
const Thresholds* BlockRunner::alike_in_block(const Operation& operation, std::size_t index) const {
  const std::size_t n = count_of(operation, index, group(0));
  for (std::size_t g = 1; g < place_->groups; ++g) {
    if (count_of(operation, index, group(g)) != n) return nullptr;
  }
  return &state_.groups[index]->alike[n];
}

void BlockRunner::pool_bits_of_groups(const Operation& operation, std::size_t index) {
  const PreparedOperation& prepared = plan_.operations[index];
  const std::size_t outputs = size(operation.outputs), words = words_for(outputs);
  const std::size_t field = std::min<std::size_t>(place_->span, 64), fields = place_->span / field;
  buffers_.fired.resize(std::max(buffers_.fired.size(), words * 64));
  const Thresholds* alike = state_.pools[index] != nullptr ? state_.pools[index].get() : alike_in_block(operation, index);
  if (alike != nullptr) {
    buffers_.rows.resize(std::max(buffers_.rows.size(), outputs * width_));
    kernels_.bilinear_pool_alike(bits(operation.in[0]), prepared.bitsliced[0].layer(*alike), static_cast<int>(field),
                                 buffers_.kernel_scratch.data(), buffers_.rows.data(), buffers_.fired.data());
  } else {
    const std::size_t stride = width_ * (64 / field);
    buffers_.codes_of_groups.resize(std::max(buffers_.codes_of_groups.size(), outputs * stride));
    for (std::size_t g = 0; g < place_->groups; ++g) {
      const std::uint32_t* codes = state_.groups[index]->codes.data() + count_of(operation, index, group(g)) * outputs;
      for (std::size_t f = g * fields; f < (g + 1) * fields; ++f) {
        for (std::size_t m = 0; m < outputs; ++m) buffers_.codes_of_groups[m * stride + f] = codes[m];
      }
    }
    kernels_.bilinear_pool_groups(bits(operation.in[0]), prepared.bitsliced[0].layer(prepared.counting),
                                  static_cast<int>(field), buffers_.codes_of_groups.data(),
                                  buffers_.kernel_scratch.data(), buffers_.fired.data());
  }
  Storage& result = state_.values[size(operation.out[0])];
  put_fired(outputs, place_->groups, fields, [&](std::size_t g, std::size_t word, std::uint64_t bits) {
    std::uint64_t& row = result.words[group(g) * words + word];
    row = continues() ? row | bits : bits;
  });
}

// Bit f of fired[m] becomes bit m of group f / fields. Calls put(group, word, bits) for all words of each group.
template <class Put>
void BlockRunner::put_fired(std::size_t outputs, std::size_t groups, std::size_t fields, const Put& put) {
  std::uint64_t square[64];
  for (std::size_t word = 0; word < words_for(outputs); ++word) {
    for (std::size_t m = 0; m < 64; ++m) square[m] = word * 64 + m < outputs ? buffers_.fired[word * 64 + m] : 0;
    kernels_.transpose_bits(square);
    for (std::size_t g = 0; g < groups; ++g) {
      std::uint64_t bits = 0;
      for (std::size_t f = 0; f < fields; ++f) bits |= square[g * fields + f];
      put(g, word, bits);
    }
  }
}

std::vector<std::uint64_t> BlockRunner::pool_clouds(std::size_t position, std::size_t span,
                                                    const std::vector<std::size_t>& counts) {
  const std::size_t index = size(pass_.operations[position]);
  const Operation& operation = network_.operations[index];
  const PreparedOperation& prepared = plan_.operations[index];
  const std::size_t outputs = size(operation.outputs), words = words_for(outputs);
  const std::size_t field = std::min<std::size_t>(span, 64), fields = span / field, stride = width_ * (64 / field);
  buffers_.fired.resize(std::max(buffers_.fired.size(), words * 64));
  buffers_.codes_of_groups.resize(std::max(buffers_.codes_of_groups.size(), outputs * stride));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint32_t* codes = state_.groups[index]->codes.data() + counts[i] * outputs;
    for (std::size_t f = i * fields; f < (i + 1) * fields; ++f) {
      for (std::size_t m = 0; m < outputs; ++m) buffers_.codes_of_groups[m * stride + f] = codes[m];
    }
  }
  kernels_.bilinear_pool_groups(bits(operation.in[0]), prepared.bitsliced[0].layer(prepared.counting),
                                static_cast<int>(field), buffers_.codes_of_groups.data(),
                                buffers_.kernel_scratch.data(), buffers_.fired.data());
  std::vector<std::uint64_t> pooled(counts.size() * words);
  put_fired(outputs, counts.size(), fields,
            [&](std::size_t i, std::size_t word, std::uint64_t bits) { pooled[i * words + word] = bits; });
  return pooled;
}

// The agreements of all elements of a group with a row: input k agrees at ones[k] elements if its weight is +1, else at
// all others.
void BlockRunner::mean_bits_of_groups(const Operation& operation, std::size_t index) {
  const std::size_t inputs = size(operation.inputs), outputs = size(operation.outputs), width = words_for(inputs);
  const std::uint64_t* slices = bits(operation.in[0]);
  Storage& result = state_.values[size(operation.out[0])];
  std::vector<double>& ones = buffers_.sums[index];  // integers
  ones.resize(inputs);
  for (std::size_t g = 0; g < place_->groups; ++g) {
    const std::size_t n = count_of(operation, index, group(g)), here = elements_here(n), first = lane(g);
    for (std::size_t k = 0; k < inputs; ++k) {
      if (!continues()) ones[k] = 0;
      for (std::size_t j = 0; j < here; ++j) ones[k] += get_bit(slices + k * width_, first + j) ? 1 : 0;
    }
    if (!place_->last) continue;
    std::uint64_t* row = result.words.data() + group(g) * words_for(outputs);
    std::fill_n(row, words_for(outputs), 0);
    for (std::size_t m = 0; m < outputs; ++m) {
      double sum = 0;
      for (std::size_t k = 0; k < inputs; ++k) {
        sum += get_bit(&operation.bits[m * width], k) ? ones[k] : static_cast<double>(n) - ones[k];
      }
      row[m / 64] |= std::uint64_t{reaches_mean(operation, m, n, sum)} << m % 64;
    }
  }
}

void BlockRunner::flatten(const Operation& operation) {
  const int from = operation.in[0];
  const std::size_t wide = channels(from), slots = layout_->slots;
  const std::size_t here = elements_here(slots), start = place_->slot;
  const bool by_slot = operation.order == Order::slots;
  Storage& result = state_.values[size(operation.out[0])];
  const std::size_t words = words_for(slots * wide);
  for (std::size_t g = 0; g < place_->groups; ++g) {
    if (value(from).kind == Kind::floats) {
      float* row = result.elements.data() + group(g) * slots * wide;
      if (by_slot) {
        kernels_.transpose_floats(floats(from) + lane(g), kernels_.lanes, static_cast<int>(wide),
                                  static_cast<int>(here), row + start * wide, static_cast<int>(wide));
      } else {
        for (std::size_t k = 0; k < wide; ++k) {
          std::copy_n(floats(from) + k * lanes_ + lane(g), here, row + k * slots + start);
        }
      }
      continue;
    }
    std::uint64_t* row = result.words.data() + group(g) * words;
    if (!continues()) std::fill_n(row, words, 0);
    for (std::size_t k = 0; k < wide; ++k) {
      const std::uint64_t* slice = bits(from) + k * width_;
      for (std::size_t j = 0; j < here; j += by_slot ? 1 : 64) {
        const std::size_t at = lane(g) + j;
        if (by_slot) {
          put_bits(row, (start + j) * wide + k, 1, slice[at / 64] >> at % 64 & 1);
        } else {
          const std::size_t count = std::min<std::size_t>(64, here - j);
          put_bits(row, k * slots + start + j, count, slice[at / 64] >> at % 64 & low_bits(count));
        }
      }
    }
  }
}

}  // namespace bipointnet
