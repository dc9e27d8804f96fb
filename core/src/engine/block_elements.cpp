// Operations on whole elements, whose channels are next to each other.
#include <algorithm>

#include "engine/block.h"
#include "format/bits.h"

namespace bipointnet {
namespace {

// Writes successive bits into words.
class BitWriter {
 public:
  explicit BitWriter(std::uint64_t* words) : words_(words) {}

  // The lowest `count` bits of `bits`, from 1 to 64; all others must be 0.
  void put(std::uint64_t bits, std::size_t count) {
    word_ |= bits << filled_;
    filled_ += count;
    if (filled_ < 64) return;
    *words_++ = word_;
    filled_ -= 64;
    word_ = filled_ == 0 ? 0 : bits >> (count - filled_);
  }

  void finish() {
    if (filled_ > 0) *words_ = word_;
  }

 private:
  std::uint64_t* words_;
  std::uint64_t word_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace

// The counts of a layer that is computed by elements are rows of bytes: the lower ones of all channels, then the upper
// ones.
void BlockRunner::count_agreements(const Operation& layer, const PreparedOperation& prepared) {
  auto* low = reinterpret_cast<std::uint8_t*>(floats_for(layer.out[0]));
  kernels_.bilinear_counts(bits(layer.in[0]), prepared.bitsliced[0].layer(prepared.thresholds[0]),
                           buffers_.kernel_scratch.data(), low, low + size(layer.outputs) * lanes_);
}

// Writes the elements of a value in `count` lanes from lane `first` on.
void BlockRunner::put_elements(int number, std::size_t first, std::size_t count, float* to, std::size_t stride) {
  const std::size_t wide = channels(number);
  if (!pass_.by_elements[size(number)]) {
    return kernels_.transpose_floats(floats(number) + first, kernels_.lanes, static_cast<int>(wide),
                                     static_cast<int>(count), to, static_cast<int>(stride));
  }
  const std::size_t index = size(plan_.producer[size(number)]);
  const Operation& made_by = network_.operations[index];
  const PreparedOperation& prepared = plan_.operations[index];
  switch (made_by.op) {
    case Op::concat:
      for (const int part : prepared.parts) {
        put_elements(part, first, count, to, stride);
        to += channels(part);
      }
      break;
    case Op::multiply: {
      const bool first_is_one = channels(made_by.in[0]) == 1;
      const int factor = made_by.in[first_is_one ? 0 : 1], operand = made_by.in[first_is_one ? 1 : 0];
      const Operation& layer = network_.operations[size(plan_.producer[size(operand)])];
      const float* factors = floats(factor) + first;
      if (pass_.by_elements[size(operand)] && layer.op == Op::bilinear_float) {
        return put_counted(operand, factors, first, count, to, stride);
      }
      put_elements(operand, first, count, to, stride);
      for (std::size_t i = 0; i < count; ++i) kernels_.scale(to + i * stride, factors[i], static_cast<int>(wide));
      break;
    }
    case Op::bilinear_float: return put_counted(number, nullptr, first, count, to, stride);
    default: {  // gather or broadcast
      const float* elements = state_.values[size(made_by.in[0])].elements.data();
      const std::uint32_t* source = (made_by.op == Op::gather ? buffers_.source : buffers_.parent).data() + first;
      for (std::size_t i = 0; i < count; ++i) std::copy_n(elements + source[i] * wide, wide, to + i * stride);
    }
  }
}

// The same for a layer that has counted its agreements, times one factor per lane unless `factors` is null.
void BlockRunner::put_counted(int number, const float* factors, std::size_t first, std::size_t count, float* to,
                              std::size_t stride) {
  const std::size_t index = size(plan_.producer[size(number)]);
  const Operation& layer = network_.operations[index];
  const PreparedOperation& prepared = plan_.operations[index];
  const auto* low = reinterpret_cast<const std::uint8_t*>(floats(number)) + first;
  const std::uint8_t* high = prepared.bitsliced[0].levels() < 8 ? nullptr : low + channels(number) * lanes_;
  kernels_.elements_of_counts(low, high, static_cast<int>(count), layer.outputs, layer.inputs, prepared.vector.a.data(),
                              prepared.vector.b.data(), factors, activation_code(layer.activation), to,
                              static_cast<int>(stride));
}

// Group by group, with elements as rows: then the channels, which are contiguous, are the vectors. The operand of groups
// that are larger than a block is stored element by element. `sign`: as for dense. `flattened`: the operation that reads
// only these signs, done here; or -1.
void BlockRunner::mix(const Operation& operation, int sign, int flattened) {
  const std::size_t wide = channels(operation.in[1]), slots = layout_->slots, span = place_->span;
  const std::size_t rows = std::min(span, slots - place_->slot);
  const float* matrices = state_.values[size(operation.in[0])].elements.data() + place_->slot * slots;
  const Storage& stored = state_.values[size(operation.in[1])];
  const bool larger = network_.domains[size(pass_.domain)].count.most > lanes_;
  buffers_.elements.resize(std::max(buffers_.elements.size(), slots * wide));
  buffers_.more_elements.resize(std::max(buffers_.more_elements.size(), lanes_ * wide));
  for (std::size_t g = 0; g < place_->groups; ++g) {
    const float* elements = larger ? stored.elements.data() + group(g) * slots * wide : buffers_.elements.data();
    if (!larger) put_elements(operation.in[1], lane(g), slots, buffers_.elements.data(), wide);
    float* mixed = buffers_.more_elements.data() + (flattened < 0 ? lane(g) * wide : 0);
    kernels_.mix_slots(matrices + group(g) * slots * slots, static_cast<int>(slots), static_cast<int>(rows), elements,
                       static_cast<int>(wide), mixed);
    if (flattened >= 0) {
      flatten_signs(network_.operations[size(flattened)], network_.operations[size(sign)].at, g, mixed);
    }
    for (std::size_t j = rows; j < span && sign < 0; ++j) std::copy_n(mixed, wide, mixed + j * wide);
  }
  if (flattened >= 0) return;
  if (sign >= 0) return mixed_signs(network_.operations[size(sign)], wide);
  kernels_.transpose_floats(buffers_.more_elements.data(), static_cast<int>(wide), kernels_.lanes,
                            static_cast<int>(wide), floats_for(operation.out[0]), kernels_.lanes);
}

// The signs of the elements of a group, as the bits of its center.
void BlockRunner::flatten_signs(const Operation& flatten, float at, std::size_t g, const float* mixed) {
  const std::size_t slots = layout_->slots, wide = channels(flatten.in[0]);
  BitWriter row(state_.values[size(flatten.out[0])].words.data() + group(g) * words_for(slots * wide));
  if (flatten.order == Order::slots) {
    buffers_.rows.resize(std::max(buffers_.rows.size(), words_for(wide)));
    for (std::size_t j = 0; j < slots; ++j) {
      kernels_.compare(mixed + j * wide, static_cast<int>(wide), at, buffers_.rows.data());
      for (std::size_t k = 0; k < wide; k += 64) row.put(buffers_.rows[k / 64], std::min<std::size_t>(64, wide - k));
    }
  } else {
    buffers_.slot_signs.resize(std::max(buffers_.slot_signs.size(), wide));
    kernels_.slot_signs(mixed, static_cast<int>(slots), static_cast<int>(wide), at, buffers_.slot_signs.data());
    for (std::size_t k = 0; k < wide; ++k) row.put(buffers_.slot_signs[k], slots);
  }
  row.finish();
}

// Sums over elements in order. Of a set, the blocks come in order. Where only the signs of the sums are stored, those of
// a group that is larger than a block wait in the buffers.
void BlockRunner::outer(const Operation& operation) {
  const std::size_t weights = channels(operation.in[0]), wide = channels(operation.in[1]), all = weights * wide;
  const bool of_set = layout_ == nullptr;
  const std::size_t groups = of_set ? 1 : place_->groups;
  const std::size_t here = of_set ? valid_ : elements_here(layout_->slots);
  const bool first = of_set ? block_ == 0 : !continues();
  const int sign = plan_.stored_sign[size(operation.out[0])];
  Storage& result = state_.values[size(operation.out[0])];
  buffers_.elements.resize(std::max(buffers_.elements.size(), here * wide));
  if (sign >= 0) buffers_.more_elements.resize(std::max(buffers_.more_elements.size(), all));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t start = of_set ? 0 : lane(g);
    put_elements(operation.in[1], start, here, buffers_.elements.data(), wide);
    float* sums = sign >= 0 ? buffers_.more_elements.data() : result.elements.data() + (of_set ? 0 : group(g)) * all;
    kernels_.outer_sums(floats(operation.in[0]) + start, static_cast<int>(weights), buffers_.elements.data(),
                        static_cast<int>(wide), static_cast<int>(here), first, sums);
    if (sign >= 0 && place_->last) {
      kernels_.compare(sums, static_cast<int>(all), network_.operations[size(sign)].at,
                       result.words.data() + group(g) * words_for(all));
    }
  }
}

// Stores a value element by element.
void BlockRunner::write(int number) {
  Storage& stored = state_.values[size(number)];
  const std::size_t wide = channels(number);
  const std::uint32_t* own = buffers_.own.data();
  if (value(number).kind == Kind::bits) {
    const std::size_t words = words_for(wide);
    rows_of_slices(kernels_, bits(number), wide, width_, [&](std::size_t lane, std::size_t word, std::uint64_t row) {
      const bool has_own = layout_ == nullptr ? lane < valid_ : buffers_.like[lane] == lane;
      if (has_own) stored.words[own[lane] * words + word] = row;
    });
  } else if (layout_ == nullptr) {
    put_elements(number, 0, valid_, stored.elements.data() + block_ * lanes_ * wide, wide);
  } else {
    for (std::size_t g = 0; g < place_->groups; ++g) {
      put_elements(number, lane(g), elements_here(layout_->slots), stored.elements.data() + own[lane(g)] * wide, wide);
    }
  }
}

}  // namespace bipointnet
