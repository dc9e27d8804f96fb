// The distinct codes of a cloud.
//
// The code of a point is a row of bits. Everything computed from them alone is the same at all points with this code,
// and a maximum does not depend on how often a value occurs. So points with equal codes are processed once. A scan with
// ten times as many points has only a few times as many distinct codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace bipointnet {

// Codes are found by a hash, and compared in full.
class CodeSet {
 public:
  // Removes all codes. From now on they have `channels` bits. `expected`: about how many will come, at most.
  void reset(std::size_t channels, const Kernels& kernels, std::size_t expected);

  // Adds a code if it is new. Returns its number: codes are numbered in the order in which they were added.
  std::uint32_t insert(const std::uint64_t* code);

  // Adds the codes of another set.
  void merge(const CodeSet& other);

  // Adds the codes of `count` lanes of a block of slices of `width` words, from lane `first` on, and, if `numbers` is
  // given, appends the number of the code of each lane.
  void insert_lanes(const std::uint64_t* slices, std::size_t width, std::size_t first, std::size_t count,
                    std::vector<std::uint32_t>* numbers);

  // The codes from number `first` on as slices of `width` words; 0 after the last code.
  void load(std::size_t first, std::size_t width, std::uint64_t* slices) const;

  std::size_t size() const { return count_; }
  const std::uint64_t* code(std::size_t number) const { return codes_.data() + number * words_; }
  std::size_t bytes() const { return 8 * (codes_.capacity() + rows_.capacity()) + 4 * slots_.capacity(); }

 private:
  template <int kWords>
  std::size_t slot_of(const std::uint64_t* code) const;
  template <int kWords>
  std::uint32_t insert_code(const std::uint64_t* code);
  template <int kWords>
  void insert_rows(std::size_t first, std::size_t end, std::vector<std::uint32_t>* numbers);
  template <int kWords>
  void grow();

  const Kernels* kernels_ = nullptr;
  std::size_t channels_ = 0, words_ = 0, count_ = 0;
  std::vector<std::uint64_t> codes_;  // by number, with room for more
  std::vector<std::uint32_t> slots_;  // hash table with open addressing: 0 is empty, else a number plus 1
  std::vector<std::uint64_t> rows_;   // the codes of 64 lanes
  unsigned shift_ = 64;
};

}  // namespace bipointnet
