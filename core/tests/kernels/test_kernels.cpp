// Every kernel of every instruction set of this machine, compared with simple code.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "engine/aligned.h"
#include "engine/bitsliced.h"
#include "format/bits.h"
#include "kernels/dispatch.h"
#include "kernels/kernels.h"

using namespace bipointnet;

namespace {

std::mt19937_64 rng(1);

std::size_t at(int i) { return static_cast<std::size_t>(i); }

float number() { return static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 500.0f; }

template <class Vector>
void fill(Vector& numbers) {
  for (float& n : numbers) n = number();
}

bool bit(const std::uint64_t* words, int index) { return words[index / 64] >> (index % 64) & 1; }

// Rows of random bits with clear pad bits.
std::vector<std::uint64_t> random_bits(int rows, int columns) {
  const std::size_t width = words_for(at(columns));
  std::vector<std::uint64_t> words(at(rows) * width);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = rng();
    if (i % width == width - 1 && columns % 64 != 0) words[i] &= (std::uint64_t{1} << (columns % 64)) - 1;
  }
  return words;
}

int count_agreements(const std::uint64_t* slices, int words, const std::uint64_t* row, int inputs, int point) {
  int count = 0;
  for (int k = 0; k < inputs; ++k) count += bit(slices + k * words, point) == bit(row, k);
  return count;
}

// The whole range and slightly beyond; more often near the middle, where outputs vary.
std::vector<int> random_thresholds(int inputs, int outputs) {
  std::vector<int> thresholds;
  for (int m = 0; m < outputs; ++m) {
    const int spread = m % 3 == 0 ? inputs + 4 : 7;
    thresholds.push_back(m % 3 == 0 ? static_cast<int>(rng() % static_cast<unsigned>(spread)) - 1
                                    : inputs / 2 - 3 + static_cast<int>(rng() % static_cast<unsigned>(spread)));
  }
  return thresholds;
}

// Counted agreements become elements of the same floats as the rows of a layer with hardtanh.
void check_elements(const Kernels& kernels, const Aligned<std::uint64_t>& slices, const BitslicedWeights& sliced,
                    const std::vector<float>& a, const std::vector<float>& b, const Aligned<float>& rows) {
  const int lanes = kernels.lanes, outputs = static_cast<int>(a.size());
  const Thresholds counting = sliced.counting();
  const BitslicedLayer layer = sliced.layer(counting);
  Aligned<std::uint64_t> scratch(at(scratch_slices(layer.inputs, outputs) * lanes / 64));
  Aligned<std::uint8_t> low(at(outputs * lanes)), high(at(outputs * lanes));
  kernels.bilinear_counts(slices.data(), layer, scratch.data(), low.data(), high.data());
  std::vector<float> factors(at(lanes));
  fill(factors);
  const int stride = outputs + 3;
  for (const int first : {0, 8, lanes - 8}) {
    const int count = std::min(lanes - first, first == 8 ? 21 : lanes);
    for (const bool multiplied : {false, true}) {
      std::vector<float> elements(at(count * stride), 9.0f);
      kernels.elements_of_counts(low.data() + first, layer.levels < 8 ? nullptr : high.data() + first, count, outputs,
                                 layer.inputs, a.data(), b.data(), multiplied ? factors.data() : nullptr, 2,
                                 elements.data(), stride);
      long wrong = 0;
      for (int i = 0; i < count; ++i) {
        for (int m = 0; m < outputs; ++m) {
          const float row = rows[at(m * lanes + first + i)], factor = multiplied ? factors[at(i)] : 1.0f;
          wrong += elements[at(i * stride + m)] != row * factor;
        }
        for (int m = outputs; m < stride; ++m) wrong += elements[at(i * stride + m)] != 9.0f;
      }
      CHECK_EQUAL(wrong, 0);
    }
  }
}

void check_compared(const Kernels& kernels, int slots, int channels) {
  std::vector<float> x(at(slots * channels));
  fill(x);
  std::vector<std::uint32_t> signs(at(channels));
  kernels.slot_signs(x.data(), slots, channels, 0.25f, signs.data());
  std::vector<std::uint64_t> row(words_for(at(channels)));
  for (int j = 0; j < slots; ++j) {
    const float* slot = x.data() + j * channels;
    kernels.compare(slot, channels, 0.25f, row.data());
    for (int c = 0; c < channels; ++c) {
      CHECK_EQUAL(bit(row.data(), c), slot[c] >= 0.25f);
      CHECK_EQUAL(signs[at(c)] >> j & 1, static_cast<std::uint32_t>(slot[c] >= 0.25f));
    }
    if (channels % 64 != 0) CHECK_EQUAL(row.back() >> channels % 64, 0u);
  }
}

void check_bilinear(const Kernels& kernels, int inputs, int outputs) {
  const int lanes = kernels.lanes, words = lanes / 64;
  const std::vector<std::uint64_t> weight = random_bits(outputs, inputs);
  const std::vector<int> threshold = random_thresholds(inputs, outputs), other = random_thresholds(inputs, outputs);
  const BitslicedWeights sliced(weight.data(), inputs, outputs, kernels.one_copy);
  const Thresholds thresholds = sliced.thresholds(threshold), pool_thresholds = sliced.thresholds(other),
                   counts = sliced.counting();
  Aligned<std::uint64_t> slices(at(inputs * words)), mask(at(words));
  Aligned<std::uint64_t> scratch(at(scratch_slices(inputs, outputs) * words));
  Aligned<std::uint64_t> out(at(outputs * words)), both(at(outputs * words));
  for (std::uint64_t& word : slices) word = rng();
  for (std::uint64_t& word : mask) word = rng() & rng();
  kernels.bilinear(slices.data(), sliced.layer(thresholds), scratch.data(), out.data());
  BitslicedWeights fixed(weight.data(), inputs, outputs, true);
  if (!kernels.one_copy) fixed.fix(thresholds);
  kernels.bilinear(slices.data(), fixed.layer(thresholds), scratch.data(), both.data());
  CHECK(both == out);
  std::vector<std::uint64_t> fired(words_for(at(outputs)), 0), expected(words_for(at(outputs)), 0), with_both;
  fired[0] = expected[0] = 1;  // an output that fired before stays set
  with_both = fired;
  kernels.bilinear_pool(slices.data(), sliced.layer(pool_thresholds), mask.data(), scratch.data(), fired.data());
  kernels.bilinear_and_pool(slices.data(), sliced.layer(thresholds), sliced.layer(pool_thresholds), mask.data(),
                            scratch.data(), both.data(), with_both.data());
  for (const int few : {lanes / 2, lanes / 4, lanes / 8}) {  // lanes in use: then one register can hold several outputs
    Aligned<std::uint64_t> used = mask;
    for (int p = few; p < lanes; ++p) used[at(p / 64)] &= ~(std::uint64_t{1} << p % 64);
    std::vector<std::uint64_t> found(words_for(at(outputs)), 0), wanted(words_for(at(outputs)), 0);
    found[0] = wanted[0] = 2;
    kernels.bilinear_pool(slices.data(), sliced.layer(pool_thresholds), used.data(), scratch.data(), found.data());
    for (int m = 0; m < outputs; ++m) {
      const std::uint64_t* row = weight.data() + at(m) * words_for(at(inputs));
      bool fires = other[at(m)] <= 0;
      for (int p = 0; p < few && !fires; ++p) {
        fires = bit(used.data(), p) && count_agreements(slices.data(), words, row, inputs, p) >= other[at(m)];
      }
      if (fires) wanted[at(m) / 64] |= std::uint64_t{1} << m % 64;
    }
    CHECK(found == wanted);
    std::vector<std::uint64_t> rows;
    int count = 0;
    for (int p = 0; p < few; ++p) {
      if (!bit(used.data(), p)) continue;
      rows.resize(at(++count) * words_for(at(inputs)));
      for (int k = 0; k < inputs; ++k) {
        rows[at(count - 1) * words_for(at(inputs)) + at(k / 64)] |= std::uint64_t{bit(&slices[at(k * words)], p)} << k % 64;
      }
    }
    std::vector<std::uint64_t> of_rows(words_for(at(outputs)), 0);
    of_rows[0] = 2;
    kernels.bilinear_pool_rows(rows.data(), count, sliced.layer(pool_thresholds), tiled(weight.data(), inputs, outputs).data(),
                               of_rows.data());
    CHECK(of_rows == wanted);
  }
  std::vector<float> a(at(outputs)), b(at(outputs)), scales(at(lanes));
  fill(a);
  fill(b);
  fill(scales);
  Aligned<float> lines(at(outputs * lanes)), scaled(at(outputs * lanes));
  kernels.bilinear_float(slices.data(), sliced.layer(counts), a.data(), b.data(), nullptr, 2, scratch.data(),
                         lines.data());
  kernels.bilinear_float(slices.data(), sliced.layer(counts), a.data(), b.data(), scales.data(), 1, scratch.data(),
                         scaled.data());
  long wrong = 0;
  for (int m = 0; m < outputs; ++m) {
    for (int p = 0; p < lanes; ++p) {
      const int count =
          count_agreements(slices.data(), words, weight.data() + at(m) * words_for(at(inputs)), inputs, p);
      wrong += bit(out.data() + m * words, p) != (count >= threshold[at(m)]);
      const bool fires = count >= other[at(m)];
      if (fires && (bit(mask.data(), p) || other[at(m)] <= 0)) expected[at(m) / 64] |= std::uint64_t{1} << m % 64;
      const float z = static_cast<float>(2 * count - inputs);
      volatile float line = a[at(m)] * z, product = scales[at(p)] * z;
      line = line + b[at(m)];
      product = a[at(m)] * product;
      product = product + b[at(m)];
      wrong += lines[at(m * lanes + p)] != (line < -1 ? -1.0f : line > 1 ? 1.0f : line);
      wrong += scaled[at(m * lanes + p)] != (product < 0 ? 0.0f : product);
    }
  }
  CHECK_EQUAL(wrong, 0);
  for (const int points : {1, 5, 16, 37, lanes}) {
    std::vector<float> of_lines(at(outputs), -0.25f), of_scaled(of_lines), expected_lines(of_lines), expected_scaled(of_lines);
    kernels.bilinear_float_max(slices.data(), sliced.layer(counts), a.data(), b.data(), nullptr, 2, points,
                               scratch.data(), of_lines.data());
    kernels.bilinear_float_max(slices.data(), sliced.layer(counts), a.data(), b.data(), scales.data(), 1, points,
                               scratch.data(), of_scaled.data());
    kernels.update_max(lines.data(), outputs, points, expected_lines.data());
    kernels.update_max(scaled.data(), outputs, points, expected_scaled.data());
    CHECK(of_lines == expected_lines);
    CHECK(of_scaled == expected_scaled);
  }
  check_elements(kernels, slices, sliced, a, b, lines);
  CHECK(both == out);
  CHECK(fired == expected);
  CHECK(with_both == expected);
}

// Bit j of word i becomes bit i of word j.
void check_transpose(const Kernels& kernels) {
  std::uint64_t words[64], transposed[64];
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 64; ++i) words[i] = transposed[i] = round % 2 == 0 ? rng() : rng() & rng() & rng();
    kernels.transpose_bits(transposed);
    long wrong = 0;
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 64; ++j) wrong += bit(&words[i], j) != bit(&transposed[j], i);
    }
    CHECK_EQUAL(wrong, 0);
  }
}

// The sum over k of weight[k] x[k] at a point, in order, rounded after every operation.
float product_at(const float* weight, const Aligned<float>& x, int inputs, int lanes, int point) {
  volatile float sum = 0;
  for (int k = 0; k < inputs; ++k) {
    volatile float term = weight[k] * x[at(k * lanes + point)];
    sum = k == 0 ? term : sum + term;
  }
  return sum;
}

void check_signs(const Kernels& kernels, int inputs, int outputs) {
  const int lanes = kernels.lanes;
  Aligned<float> x(at(inputs * lanes)), rows(at(outputs * lanes));
  std::vector<float> weight(at(outputs * inputs)), bias(at(outputs)), bound, norms;
  fill(x);
  fill(weight);
  fill(bias);
  x[0] = -0.0f;
  for (int m = 0; m < outputs; ++m) {
    bound.push_back(-bias[at(m)]);
    norms.push_back(0);
    for (int k = 0; k < inputs; ++k) norms.back() += std::abs(weight[at(m * inputs + k)]);
  }
  Aligned<std::uint64_t> slices(at(outputs * lanes / 64));
  kernels.dense_signs(x.data(), inputs, weight.data(), bound.data(), norms.data(), outputs, slices.data());
  for (int act = 0; act < 3; ++act) {
    kernels.dense(x.data(), inputs, weight.data(), bias.data(), outputs, act, rows.data());
    long wrong = 0;
    for (int m = 0; m < outputs; ++m) {
      for (int p = 0; p < lanes; ++p) {
        volatile float y = product_at(&weight[at(m * inputs)], x, inputs, lanes, p) + bias[at(m)];
        wrong += bit(slices.data() + m * lanes / 64, p) != (y >= 0);
        if (act == 1 && y < 0) y = 0;
        if (act == 2) y = y < -1 ? -1.0f : y > 1 ? 1.0f : y;
        wrong += rows[at(m * lanes + p)] != y;
      }
    }
    CHECK_EQUAL(wrong, 0);
  }
}

// Signs of sums that equal the bound or are next to it, where a different rounding would change the sign: for numbers
// of every magnitude, infinity and NaN.
void check_close_signs(const Kernels& kernels, int inputs, int outputs, float scale) {
  const int lanes = kernels.lanes;
  Aligned<float> x(at(inputs * lanes));
  std::vector<float> weight(at(outputs * inputs)), bound, norms;
  for (float& number_of_x : x) number_of_x = static_cast<float>(rng() >> 40) * 0x1p-24f * number() * scale;
  for (float& w : weight) w = static_cast<float>(rng() >> 40) * 0x1p-24f * number();
  if (!(scale < 1e20f)) x[at(inputs * lanes / 2)] = scale * 1e20f;
  if (scale == 1.0f) x[at(lanes / 2)] = std::nanf("");
  for (int m = 0; m < outputs; ++m) {
    const int point = static_cast<int>(rng() % static_cast<unsigned>(lanes));
    const float sum = product_at(&weight[at(m * inputs)], x, inputs, lanes, point);
    bound.push_back(m % 3 == 0 ? sum : std::nextafter(sum, m % 3 == 1 ? INFINITY : -INFINITY));
    norms.push_back(0);
    for (int k = 0; k < inputs; ++k) norms.back() += std::abs(weight[at(m * inputs + k)]);
  }
  for (const float* given : {static_cast<const float*>(norms.data()), static_cast<const float*>(nullptr)}) {
    Aligned<std::uint64_t> slices(at(outputs * lanes / 64));
    kernels.dense_signs(x.data(), inputs, weight.data(), bound.data(), given, outputs, slices.data());
    long wrong = 0;
    for (int m = 0; m < outputs; ++m) {
      for (int p = 0; p < lanes; ++p) {
        const bool reached = product_at(&weight[at(m * inputs)], x, inputs, lanes, p) >= bound[at(m)];
        wrong += bit(slices.data() + m * lanes / 64, p) != reached;
      }
    }
    CHECK_EQUAL(wrong, 0);
  }
}

void check_vectors(const Kernels& kernels, int inputs, int outputs) {
  const std::vector<std::uint64_t> bits = random_bits(1, inputs), weight = random_bits(outputs, inputs);
  std::vector<int> counts(at(outputs + kTile));
  kernels.agreements(bits.data(), tiled(weight.data(), inputs, outputs).data(), inputs, outputs, counts.data());
  std::vector<float> x(at(inputs)), columns(at(inputs * outputs)), bias(at(outputs)), y(at(outputs));
  fill(x);
  fill(columns);
  fill(bias);
  kernels.dense_vector(x.data(), inputs, columns.data(), bias.data(), outputs, 0, y.data());
  for (int m = 0; m < outputs; ++m) {
    int count = 0;
    for (int k = 0; k < inputs; ++k) count += bit(bits.data(), k) == bit(&weight[at(m) * words_for(at(inputs))], k);
    CHECK_EQUAL(counts[at(m)], count);
    volatile float sum = 0;
    for (int k = 0; k < inputs; ++k) {
      volatile float product = columns[at(k * outputs + m)] * x[at(k)];
      sum = k == 0 ? product : sum + product;
    }
    CHECK_EQUAL(y[at(m)], sum + bias[at(m)]);
  }
}

void check_floats(const Kernels& kernels, int count, int points) {
  const int lanes = kernels.lanes;
  Aligned<float> x(at(count * lanes)), scales(at(lanes));
  fill(x);
  std::vector<float> largest(at(count), -1.5f), expected = largest;
  kernels.update_max(x.data(), count, points, largest.data());
  kernels.mean_abs(x.data(), count, scales.data());
  for (int k = 0; k < count; ++k) {
    for (int p = 0; p < points; ++p) expected[at(k)] = std::max(expected[at(k)], x[at(k * lanes + p)]);
  }
  CHECK(largest == expected);
  for (int p = 0; p < lanes; ++p) {
    double total = 0;
    for (int first = 0; first < 8; ++first) {
      double sum = 0;
      for (int k = first; k < count; k += 8) sum += std::abs(double{x[at(k * lanes + p)]});
      total += sum;
    }
    CHECK_EQUAL(scales[at(p)], static_cast<float>(total / count));
  }
}

}  // namespace

int main() {
  std::vector<const Kernels*> all = available_kernels();
#if defined(BIPOINTNET_X86)
  if (std::string(all.front()->name) == "avx512") all.push_back(&kAvx512);  // with and without VPOPCNTDQ
#endif
  for (const Kernels* kernels : all) {
    std::cerr << kernels->name << "\n";
    for (const int inputs : {1, 2, 3, 7, 8, 9, 31, 62, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, 515, 1030}) {
      check_bilinear(*kernels, inputs, 70);
      check_vectors(*kernels, inputs, 37);
    }
    check_bilinear(*kernels, 260, 2 * kBatch + 3);
    check_transpose(*kernels);
    for (const int channels : {1, 7, 8, 31, 63, 64, 65, 100, 128, 191}) {
      for (const int slots : {1, 2, 12, 32}) check_compared(*kernels, slots, channels);
    }
    for (const int points : {1, 15, 16, 17, 63, 64}) check_floats(*kernels, 21, points);
    check_floats(*kernels, 5, kernels->lanes);
    for (const int inputs : {1, 2, 3, 4, 6, 9, 64}) check_signs(*kernels, inputs, inputs < 9 ? 11 : 21);
    for (const int inputs : {3, 16, 33, 128}) {
      for (const float scale : {0.0f, 1e-44f, 1e-38f, 1e-20f, 1.0f, 1e25f, 1e38f, INFINITY, std::nanf("")}) {
        check_close_signs(*kernels, inputs, 40, scale);
      }
    }
  }
  return check_report();
}
