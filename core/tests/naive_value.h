// A value of a program, as the interpreter of naive.h sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "format/network.h"

namespace bipointnet::naive {

// The input is an error by docs/format.md.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One row per element of the domain. Element j of group i is row i k + j.
struct Value {
  Kind kind = Kind::floats;
  std::size_t rows = 0, columns = 0;
  std::vector<float> floats;           // rows x columns
  std::vector<std::uint8_t> bits;      // rows x columns, each 0 or 1
  std::vector<std::uint32_t> indices;  // rows
  std::vector<std::uint32_t> counts;   // of groups: the true neighbors of each center

  float& number(std::size_t row, std::size_t column) { return floats[row * columns + column]; }
  float number(std::size_t row, std::size_t column) const { return floats[row * columns + column]; }
  std::uint8_t& bit(std::size_t row, std::size_t column) { return bits[row * columns + column]; }
  std::uint8_t bit(std::size_t row, std::size_t column) const { return bits[row * columns + column]; }
};

inline Value floats_of(std::size_t rows, std::size_t columns) {
  Value value{Kind::floats, rows, columns, {}, {}, {}, {}};
  value.floats.resize(rows * columns);
  return value;
}

inline Value bits_of(std::size_t rows, std::size_t columns) {
  Value value{Kind::bits, rows, columns, {}, {}, {}, {}};
  value.bits.resize(rows * columns);
  return value;
}

inline Value indices_of(std::vector<std::uint32_t> indices) {
  return {Kind::indices, indices.size(), 1, {}, {}, std::move(indices), {}};
}

// Floats or bits, whichever `kind` says.
inline Value value_of(Kind kind, std::size_t rows, std::size_t columns) {
  return kind == Kind::bits ? bits_of(rows, columns) : floats_of(rows, columns);
}

inline void copy_channel(Value& to, std::size_t to_row, std::size_t to_column, const Value& from, std::size_t from_row,
                         std::size_t from_column) {
  if (from.kind == Kind::bits) {
    to.bit(to_row, to_column) = from.bit(from_row, from_column);
  } else {
    to.number(to_row, to_column) = from.number(from_row, from_column);
  }
}

}  // namespace bipointnet::naive
