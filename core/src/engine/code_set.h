// The distinct codes of a cloud.
//
// The code of a point is its first bits. Everything computed after them depends on them alone, and a maximum does not
// depend on how often a value occurs. So points with equal codes are processed once. A scan with ten times as many
// points has only a few times as many distinct codes.
#pragma once

#include <cstdint>
#include <vector>

namespace bipointnet {

// Transposes a 64 x 64 matrix of bits in place: bit j of word i becomes bit i of word j.
void transpose(std::uint64_t (&words)[64]);

class CodeSet {
 public:
  // Removes all codes and reserves memory for `max_codes`.
  void reset(std::size_t max_codes);
  // Adds a code if it is new. Returns its number.
  std::uint32_t insert(std::uint64_t code);
  const std::vector<std::uint64_t>& codes() const { return codes_; }
  std::size_t capacity() const { return slots_.size(); }

 private:
  std::vector<std::uint64_t> codes_;  // by number: in the order of first appearance
  std::vector<std::uint32_t> slots_;  // hash table with open addressing: 0 is empty, else a number plus 1
  unsigned shift_ = 64;
};

}  // namespace bipointnet
