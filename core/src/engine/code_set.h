// Distinct codes: what a max pool over bits sees of a cloud.
//
// Everything behind the first bits of a point depends on them alone, and a maximum does not care how often a value
// occurs. So points with the same bits need to be looked at once. A scan of ten times as many points has only a few
// times as many distinct codes.
#pragma once

#include <cstdint>
#include <vector>

namespace bipointnet {

// Transposes a 64 x 64 matrix of bits in place: bit j of word i becomes bit i of word j.
void transpose(std::uint64_t (&words)[64]);

class CodeSet {
 public:
  // Forgets everything and makes room for `most` codes.
  void clear(std::size_t most);
  // Its place among the distinct codes.
  std::uint32_t insert(std::uint64_t code);
  const std::vector<std::uint64_t>& codes() const { return codes_; }
  std::size_t room() const { return places_.size(); }

 private:
  std::vector<std::uint64_t> codes_;   // in the order of their first appearance
  std::vector<std::uint32_t> places_;  // open addressing; 0 is empty, else one more than an index of codes_
  unsigned shift_ = 64;
};

}  // namespace bipointnet
