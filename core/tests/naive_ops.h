// "Arithmetic" of docs/format.md: operations on the channels of one element, and on the elements of one group.
#pragma once

#include <cmath>
#include <limits>
#include <set>

#include "engine/delta.h"
#include "naive_search.h"

namespace bipointnet::naive {

// The total of eight sums.
inline double eight_sums(const std::vector<double>& numbers) {
  double total = 0;
  for (std::size_t j = 0; j < 8; ++j) {
    double sum = 0;
    for (std::size_t i = j; i < numbers.size(); i += 8) sum += numbers[i];
    total += sum;
  }
  return total;
}

// The unit sphere. cloud: points x channels.
inline std::vector<float> normalized(std::vector<float> cloud, std::size_t channels, Normalize how) {
  if (how == Normalize::none) return cloud;
  const std::size_t points = cloud.size() / channels;
  std::vector<std::vector<double>> axes(3);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < points; ++i) axes[c].push_back(double{cloud[i * channels + c]});
    const auto [low, high] = std::minmax_element(axes[c].begin(), axes[c].end());
    const double center = how == Normalize::mean ? eight_sums(axes[c]) / static_cast<double>(points) : (*low + *high) / 2 + 0.0;
    for (double& x : axes[c]) x -= center;
  }
  double r = 0;
  for (std::size_t i = 0; i < points; ++i) {
    const double x = axes[0][i], y = axes[1][i], z = axes[2][i];
    r = std::max(r, (x * x + y * y) + z * z);
  }
  const double scale = r == 0 ? 1 : 1 / std::sqrt(r);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < points; ++i) cloud[i * channels + c] = static_cast<float>(axes[c][i] * scale);
  }
  return cloud;
}

inline float relu(float x) { return x > 0 ? x : 0.0f; }

inline float hardtanh(float x) { return x < -1 ? -1.0f : x > 1 ? 1.0f : x; }

inline float activated(Activation activation, float x) {
  return activation == Activation::relu ? relu(x) : activation == Activation::hardtanh ? hardtanh(x) : x;
}

inline float function_of(Function function, float slope, float x) {
  const double wide = double{x};
  switch (function) {
    case Function::relu: return relu(x);
    case Function::hardtanh: return hardtanh(x);
    case Function::leaky_relu: return x > 0 ? x : slope * x;
    case Function::abs: return std::abs(x);
    case Function::square: return x * x;
    case Function::sqrt: return std::sqrt(x);
    case Function::reciprocal: return 1.0f / x;
    case Function::exp: return static_cast<float>(exponential(wide));
    case Function::sigmoid: return static_cast<float>(1 / (1 + exponential(-wide)));
    case Function::tanh: return static_cast<float>(1 - 2 / (exponential(2 * wide) + 1));
  }
  throw std::logic_error("unknown function");
}

// sum over k of a[k a_step] b[k b_step], in order, starting with the first product.
inline float sum_of_products(const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                             std::size_t count) {
  float sum = a[0] * b[0];
  for (std::size_t k = 1; k < count; ++k) {
    const float product = a[k * a_step] * b[k * b_step];
    sum = sum + product;
  }
  return sum;
}

inline Value dense(const Operation& op, const Value& x) {
  Value y = floats_of(x.rows, size(op.outputs));
  const std::size_t inputs = x.columns / size(op.groups), outputs = y.columns / size(op.groups);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t m = 0; m < y.columns; ++m) {
      const float* block = &x.floats[i * x.columns + m / outputs * inputs];
      const float sum = sum_of_products(&op.weight[m * inputs], 1, block, 1, inputs);
      y.number(i, m) = activated(op.activation, sum + op.bias[m]);
    }
  }
  return y;
}

inline Value affine(const Operation& op, const Value& x) {
  Value y = floats_of(x.rows, x.columns);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t c = 0; c < y.columns; ++c) {
      const float a = static_cast<float>(op.line[2 * c]), b = static_cast<float>(op.line[2 * c + 1]);
      const float product = a * x.number(i, c);
      y.number(i, c) = activated(op.activation, product + b);
    }
  }
  return y;
}

inline Value arithmetic(Op op, const Value& a, const Value& b) {
  Value y = floats_of(a.rows, std::max(a.columns, b.columns));
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t c = 0; c < y.columns; ++c) {
      const float left = a.number(i, a.columns == 1 ? 0 : c), right = b.number(i, b.columns == 1 ? 0 : c);
      y.number(i, c) = op == Op::add        ? left + right
                       : op == Op::subtract ? left - right
                       : op == Op::multiply ? left * right
                                            : left / right;
    }
  }
  return y;
}

inline Value mean_abs(const Operation& op, const Value& x) {
  Value y = floats_of(x.rows, size(op.groups));
  const std::size_t block = x.columns / y.columns;
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t g = 0; g < y.columns; ++g) {
      std::vector<double> numbers;
      for (std::size_t c = 0; c < block; ++c) numbers.push_back(std::abs(double{x.number(i, g * block + c)}));
      y.number(i, g) = static_cast<float>(eight_sums(numbers) / static_cast<double>(block));
    }
  }
  return y;
}

// c of every element and every row of weights: the columns in which they are equal.
struct Counts {
  std::size_t columns = 0;
  std::vector<int> numbers;

  Counts(const Operation& op, const Value& x) : columns(size(op.outputs)) {
    const std::size_t inputs = x.columns / size(op.groups), outputs = columns / size(op.groups);
    const std::size_t words = words_for(inputs);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t m = 0; m < columns; m += outputs) {  // the outputs of one group
        std::vector<std::uint64_t> row(words);
        for (std::size_t k = 0; k < inputs; ++k) {
          row[k / 64] |= std::uint64_t{x.bits[i * x.columns + m / outputs * inputs + k]} << (k % 64);
        }
        for (std::size_t output = m; output < m + outputs; ++output) {
          int differ = 0;
          for (std::size_t w = 0; w < words; ++w) differ += __builtin_popcountll(row[w] ^ op.bits[output * words + w]);
          numbers.push_back(static_cast<int>(inputs) - differ);
        }
      }
    }
  }

  int operator()(std::size_t row, std::size_t column) const { return numbers[row * columns + column]; }
};

inline Value thresholded(const Operation& op, std::size_t rows, const Counts& counts) {
  Value y = bits_of(rows, size(op.outputs));
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t m = 0; m < y.columns; ++m) y.bit(i, m) = counts(i, m) >= op.threshold[m];
  }
  return y;
}

inline Value bilinear_float(const Operation& op, const Value& x, const Value* scale) {
  Value y = floats_of(x.rows, size(op.outputs));
  const Counts counts(op, x);
  const std::size_t inputs = x.columns / size(op.groups), outputs = y.columns / size(op.groups);
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t m = 0; m < y.columns; ++m) {
      float z = static_cast<float>(2 * counts(i, m) - static_cast<int>(inputs));
      if (scale != nullptr) z = scale->number(i, m / outputs) * z;
      const float a = static_cast<float>(op.line[2 * m]), b = static_cast<float>(op.line[2 * m + 1]);
      const float product = a * z;
      y.number(i, m) = activated(op.activation, product + b);
    }
  }
  return y;
}

// The elements of a domain, in groups: `slots` per element of the parent, of which the first counts[i] are true. A set
// is one group of the cloud.
struct Extent {
  std::size_t parents = 0, slots = 0;
  std::vector<std::uint32_t> counts;

  std::size_t elements() const { return parents * slots; }

  // How many elements of group i a mean, a sum or delta sees. A maximum sees all slots.
  std::size_t counted(std::size_t i, Over over) const { return over == Over::neighbors ? counts[i] : slots; }
};

inline float maximum(const Value& x, std::size_t first, std::size_t slots, std::size_t c) {
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < slots; ++j) {
    if (x.number(first + j, c) > largest) largest = x.number(first + j, c);
  }
  return largest == 0 ? 0.0f : largest;
}

inline double sum_in_runs(const Value& x, std::size_t first, std::size_t count, std::size_t c) {
  double total = 0;
  for (std::size_t run = 0; run < count; run += 64) {
    double sum = 0;
    for (std::size_t j = run; j < std::min(run + 64, count); ++j) sum += double{x.number(first + j, c)};
    total += sum;
  }
  return total;
}

inline std::size_t distinct_rows(const Value& x, std::size_t first, std::size_t count) {
  std::set<std::vector<std::uint8_t>> rows;
  for (std::size_t i = first; i < first + count; ++i) {
    rows.emplace(x.bits.begin() + static_cast<std::ptrdiff_t>(i * x.columns),
                 x.bits.begin() + static_cast<std::ptrdiff_t>((i + 1) * x.columns));
  }
  return rows.size();
}

// `codes`: the bits whose distinct rows are counted, or null.
inline Value pool(const Operation& op, const Value& x, const Value* codes, const Extent& extent) {
  Value y = floats_of(extent.parents, x.columns);
  for (std::size_t i = 0; i < y.rows; ++i) {
    const std::size_t count =
        codes == nullptr ? extent.counted(i, op.over) : distinct_rows(*codes, i * extent.slots, extent.slots);
    for (std::size_t c = 0; c < y.columns; ++c) {
      const std::size_t first = i * extent.slots;
      if (op.pool == Pool::max) {
        const float largest = maximum(x, first, extent.slots, c);
        y.number(i, c) = op.shifted ? largest - static_cast<float>(delta(count)) : largest;
      } else {
        const double sum = sum_in_runs(x, first, count, c);
        y.number(i, c) = static_cast<float>(op.pool == Pool::mean ? sum / static_cast<double>(count) : sum);
      }
    }
  }
  return y;
}

// The pooled bits of one layer; thresholded() gives its second result.
inline Value bilinear_pool(const Operation& op, const Value& x, const Counts& counts, const Extent& extent) {
  Value y = bits_of(extent.parents, size(op.outputs));
  for (std::size_t i = 0; i < y.rows; ++i) {
    const std::size_t first = i * extent.slots, counted = extent.counted(i, op.over);
    const std::size_t n = op.over == Over::distinct ? distinct_rows(x, first, extent.slots) : counted;
    const double d = op.shifted ? delta(n) : 0.0;
    for (std::size_t m = 0; m < y.columns; ++m) {
      const double a = op.line[2 * m], b = op.line[2 * m + 1];
      const double bound = op.pool == Pool::max ? std::ceil(a + b * d) : std::ceil(static_cast<double>(n) * a);
      double sum = 0, largest = 0;
      for (std::size_t j = 0; j < counted; ++j) sum += counts(first + j, m);
      for (std::size_t j = 0; j < extent.slots; ++j) largest = std::max<double>(largest, counts(first + j, m));
      y.bit(i, m) = (op.pool == Pool::max ? largest : sum) >= bound;
    }
  }
  return y;
}

inline Value flatten(const Operation& op, const Value& x, const Extent& extent) {
  Value y = value_of(x.kind, extent.parents, extent.slots * x.columns);
  for (std::size_t i = 0; i < extent.parents; ++i) {
    for (std::size_t j = 0; j < extent.slots; ++j) {
      for (std::size_t c = 0; c < x.columns; ++c) {
        const std::size_t to = op.order == Order::slots ? j * x.columns + c : c * extent.slots + j;
        copy_channel(y, i, to, x, i * extent.slots + j, c);
      }
    }
  }
  return y;
}

inline Value mix(const Value& matrix, const Value& x, const Extent& extent) {
  Value y = floats_of(x.rows, x.columns);
  const std::size_t k = extent.slots;
  for (std::size_t i = 0; i < extent.parents; ++i) {
    for (std::size_t slot = 0; slot < k; ++slot) {
      for (std::size_t c = 0; c < x.columns; ++c) {
        y.number(i * k + slot, c) = sum_of_products(&matrix.floats[i * k * k + slot * k], 1,
                                                    &x.floats[i * k * x.columns + c], x.columns, k);
      }
    }
  }
  return y;
}

inline Value outer(const Value& w, const Value& x, const Extent& extent) {
  Value y = floats_of(extent.parents, w.columns * x.columns);
  for (std::size_t i = 0; i < extent.parents; ++i) {
    const std::size_t first = i * extent.slots;
    for (std::size_t a = 0; a < w.columns; ++a) {
      for (std::size_t c = 0; c < x.columns; ++c) {
        y.number(i, a * x.columns + c) = sum_of_products(&w.floats[first * w.columns + a], w.columns,
                                                         &x.floats[first * x.columns + c], x.columns, extent.slots);
      }
    }
  }
  return y;
}

}  // namespace bipointnet::naive
