#include "engine/code_set.h"

#include <algorithm>

#include "format/bits.h"

namespace bipointnet {
namespace {

// The first size of the table. At most 8 KB, so that it stays in the first-level cache.
constexpr std::size_t kFewestSlots = 128, kFirstSlots = 2048;
constexpr std::uint64_t kMixer = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: mixes every bit into the highest ones

}  // namespace

void CodeSet::reset(std::size_t channels, const Kernels& kernels, std::size_t expected) {
  kernels_ = &kernels;
  channels_ = channels;
  words_ = words_for(channels);
  count_ = 0;
  rows_.resize(64 * words_);
  std::size_t slots = kFewestSlots;
  while (slots < kFirstSlots && slots / 2 < expected) slots *= 2;
  slots_.assign(slots, 0);
  shift_ = 64;
  for (; slots > 1; slots /= 2) --shift_;
}

// Codes of one and of two words, the most frequent ones, have their own code: kWords is 1, 2 or, for any number, 0.

// The slot of a code, or the empty slot where it belongs.
template <int kWords>
inline std::size_t CodeSet::slot_of(const std::uint64_t* code) const {
  const std::size_t words = kWords > 0 ? static_cast<std::size_t>(kWords) : words_;
  std::uint64_t hash = code[0] * kMixer;
  for (std::size_t word = 1; word < words; ++word) hash = (code[word] ^ hash >> 32) * kMixer + hash;
  const auto same = [&](const std::uint64_t* known) {
    std::uint64_t differ = 0;
    for (std::size_t word = 0; word < words; ++word) differ |= known[word] ^ code[word];
    return differ == 0;
  };
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = static_cast<std::size_t>(hash >> shift_);; slot = (slot + 1) & mask) {
    const std::uint32_t known = slots_[slot];
    if (known == 0 || same(codes_.data() + (known - 1) * words)) return slot;
  }
}

template <int kWords>
inline std::uint32_t CodeSet::insert_code(const std::uint64_t* code) {
  std::size_t slot = slot_of<kWords>(code);
  if (slots_[slot] != 0) return slots_[slot] - 1;
  if (2 * (count_ + 1) > slots_.size()) {
    grow<kWords>();
    slot = slot_of<kWords>(code);
  }
  if ((count_ + 1) * words_ > codes_.size()) codes_.resize(2 * codes_.size() + 64 * words_);
  const std::size_t words = kWords > 0 ? static_cast<std::size_t>(kWords) : words_;
  for (std::size_t word = 0; word < words; ++word) codes_[count_ * words + word] = code[word];
  slots_[slot] = static_cast<std::uint32_t>(++count_);
  return slots_[slot] - 1;
}

template <int kWords>
void CodeSet::grow() {
  slots_.assign(4 * slots_.size(), 0);
  shift_ -= 2;
  for (std::size_t number = 0; number < count_; ++number) {
    slots_[slot_of<kWords>(code(number))] = static_cast<std::uint32_t>(number + 1);
  }
}

// Adds those of rows_ from `first` to `end` - 1.
template <int kWords>
void CodeSet::insert_rows(std::size_t first, std::size_t end, std::vector<std::uint32_t>* numbers) {
  for (std::size_t i = first; i < end; ++i) {
    const std::uint32_t number = insert_code<kWords>(rows_.data() + i * words_);
    if (numbers != nullptr) numbers->push_back(number);
  }
}

std::uint32_t CodeSet::insert(const std::uint64_t* code) {
  return words_ == 1 ? insert_code<1>(code) : words_ == 2 ? insert_code<2>(code) : insert_code<0>(code);
}

void CodeSet::merge(const CodeSet& other) {
  for (std::size_t number = 0; number < other.count_; ++number) insert(other.code(number));
}

void CodeSet::insert_lanes(const std::uint64_t* slices, std::size_t width, std::size_t first, std::size_t count,
                           std::vector<std::uint32_t>* numbers) {
  alignas(64) std::uint64_t square[64];
  for (std::size_t start = first / 64 * 64; start < first + count; start += 64) {
    for (std::size_t word = 0; word < words_; ++word) {
      const std::size_t here = std::min<std::size_t>(64, channels_ - word * 64);
      for (std::size_t k = 0; k < here; ++k) square[k] = slices[(word * 64 + k) * width + start / 64];
      std::fill(square + here, square + 64, 0);
      kernels_->transpose_bits(square);
      for (std::size_t i = 0; i < 64; ++i) rows_[i * words_ + word] = square[i];
    }
    const std::size_t from = std::max(start, first) - start, end = std::min<std::size_t>(64, first + count - start);
    if (words_ == 1) insert_rows<1>(from, end, numbers);
    if (words_ == 2) insert_rows<2>(from, end, numbers);
    if (words_ > 2) insert_rows<0>(from, end, numbers);
  }
}

void CodeSet::load(std::size_t first, std::size_t width, std::uint64_t* slices) const {
  alignas(64) std::uint64_t square[64];
  for (std::size_t start = 0; start < width; ++start) {
    const std::size_t from = first + start * 64, count = from < count_ ? std::min<std::size_t>(64, count_ - from) : 0;
    for (std::size_t word = 0; word < words_; ++word) {
      for (std::size_t i = 0; i < count; ++i) square[i] = codes_[(from + i) * words_ + word];
      std::fill(square + count, square + 64, 0);
      if (count > 0) kernels_->transpose_bits(square);
      const std::size_t here = std::min<std::size_t>(64, channels_ - word * 64);
      for (std::size_t k = 0; k < here; ++k) slices[(word * 64 + k) * width + start] = square[k];
    }
  }
}

}  // namespace bipointnet
