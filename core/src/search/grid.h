// The grid on which distances are measured: docs/format.md, "Neighbors". A place is an integer in float64; every sum of
// squares of differences of places is exact.
#pragma once

#include <vector>

#include "engine/aligned.h"
#include "search/search.h"

namespace bipointnet::search {

// Throws InputError unless all numbers are within +-10^15. `what` is the name of the operand.
void check_numbers(const char* what, Rows rows);

class Grid {
 public:
  // The grid of one or two sets of rows with the same number of channels.
  Grid(Rows points, Rows centers);

  // Whether the grid is the same with these centers added: all of them are within its box. False if one is NaN.
  bool covers(Rows centers) const;

  int bits() const { return bits_; }  // places are from 0 to 2^bits
  double step() const { return step_; }

  Aligned<double> places(Rows rows, std::size_t stride) const;  // row-major, padded with zeros

 private:
  int bits_;
  double step_, scale_;
  std::vector<double> low_, high_;
};

}  // namespace bipointnet::search
