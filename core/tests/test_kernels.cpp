// Every kernel of every instruction set of this machine against the plainest code that says the same.
#include <cstdint>
#include <random>
#include <vector>

#include "aligned.h"
#include "bits.h"
#include "check.h"
#include "codes.h"
#include "delta.h"
#include "dispatch.h"
#include "kernels.h"
#include "sliced.h"

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

void check_bilinear(const Kernels& kernels, int inputs, int outputs) {
  const int lanes = kernels.lanes, words = lanes / 64;
  const std::vector<std::uint64_t> weight = random_bits(outputs, inputs);
  std::vector<int> threshold;
  for (int m = 0; m < outputs; ++m) {
    // All of the range and a little beyond, more often near the middle, where outputs vary.
    const int spread = m % 3 == 0 ? inputs + 4 : 7;
    threshold.push_back(m % 3 == 0 ? static_cast<int>(rng() % static_cast<unsigned>(spread)) - 1
                                   : inputs / 2 - 3 + static_cast<int>(rng() % static_cast<unsigned>(spread)));
  }
  const SlicedLayer sliced(weight, inputs, outputs);
  const Starts starts = sliced.starts(threshold);
  Aligned<std::uint64_t> slices(at(inputs * words)), table(at((inputs + 1) / 2 * kEntries * words));
  Aligned<std::uint64_t> out(at(outputs * words)), mask(at(words));
  for (std::uint64_t& word : slices) word = rng();
  for (std::uint64_t& word : mask) word = rng() & rng();
  kernels.carries(slices.data(), inputs, table.data());
  kernels.layer(table.data(), sliced.with(starts), out.data());
  std::vector<std::uint64_t> fired(words_for(at(outputs)), 0), expected(words_for(at(outputs)), 0);
  fired[0] = expected[0] = 1;  // an output that fired before stays as it is
  kernels.pool(table.data(), sliced.with(starts), mask.data(), fired.data());
  long wrong = 0;
  for (int m = 0; m < outputs; ++m) {
    for (int p = 0; p < lanes; ++p) {
      const int count =
          count_agreements(slices.data(), words, weight.data() + at(m) * words_for(at(inputs)), inputs, p);
      const bool fires = count >= threshold[at(m)];
      wrong += bit(out.data() + m * words, p) != fires;
      if (fires && (bit(mask.data(), p) || threshold[at(m)] <= 0)) expected[at(m) / 64] |= std::uint64_t{1} << m % 64;
    }
  }
  CHECK_EQUAL(wrong, 0);
  CHECK(fired == expected);
}

void check_signs(const Kernels& kernels, int inputs, int outputs) {
  const int lanes = kernels.lanes;
  Aligned<float> x(at(inputs * lanes)), rows(at(outputs * lanes));
  std::vector<float> weight(at(outputs * inputs)), bias(at(outputs)), bound;
  fill(x);
  fill(weight);
  fill(bias);
  x[0] = -0.0f;
  for (const float b : bias) bound.push_back(-b);
  Aligned<std::uint64_t> slices(at(outputs * lanes / 64));
  kernels.signs(x.data(), inputs, weight.data(), bound.data(), outputs, slices.data());
  for (int act = 0; act < 3; ++act) {
    kernels.dense(x.data(), inputs, weight.data(), bias.data(), outputs, act, rows.data());
    long wrong = 0;
    for (int m = 0; m < outputs; ++m) {
      for (int p = 0; p < lanes; ++p) {
        volatile float sum = 0;
        for (int k = 0; k < inputs; ++k) {
          volatile float product = weight[at(m * inputs + k)] * x[at(k * lanes + p)];
          sum = k == 0 ? product : sum + product;
        }
        volatile float y = sum + bias[at(m)];
        wrong += bit(slices.data() + m * lanes / 64, p) != (y >= 0);
        if (act == 1 && y < 0) y = 0;
        if (act == 2) y = y < -1 ? -1.0f : y > 1 ? 1.0f : y;
        wrong += rows[at(m * lanes + p)] != y;
      }
    }
    CHECK_EQUAL(wrong, 0);
  }
}

void check_vectors(const Kernels& kernels, int inputs, int outputs) {
  const std::vector<std::uint64_t> bits = random_bits(1, inputs), weight = random_bits(outputs, inputs);
  std::vector<int> counts(at(outputs + kTile));
  kernels.agreements(bits.data(), tiled(weight, inputs, outputs).data(), inputs, outputs, counts.data());
  std::vector<float> x(at(inputs)), columns(at(inputs * outputs)), bias(at(outputs)), y(at(outputs));
  fill(x);
  fill(columns);
  fill(bias);
  kernels.vector(x.data(), inputs, columns.data(), bias.data(), outputs, 0, y.data());
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

void check_codes() {
  std::uint64_t square[64], turned[64];
  for (int i = 0; i < 64; ++i) square[i] = turned[i] = rng();
  transpose(turned);
  long wrong = 0;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) wrong += (square[i] >> j & 1) != (turned[j] >> i & 1);
  }
  CHECK_EQUAL(wrong, 0);
  CodeSet set;
  for (int round = 0; round < 2; ++round) {
    set.clear(1000);
    for (int i = 0; i < 1000; ++i) set.insert(static_cast<std::uint64_t>(i % 300) << 40);
    CHECK_EQUAL(set.codes().size(), std::size_t{300});
    for (std::size_t i = 0; i < 300; ++i) CHECK_EQUAL(set.codes()[i], std::uint64_t{i} << 40);
  }
}

void check_delta() {
  CHECK_EQUAL(delta(1), 0.0);
  const std::pair<std::uint64_t, double> known[] = {{20, 1.8242}, {64, 2.2983}, {1024, 3.2044}, {4096, 3.5840}};
  for (const auto& [n, value] : known) CHECK(delta(n) > value - 5e-5 && delta(n) < value + 5e-5);
  for (std::uint64_t n = 1; n < 5000; ++n) CHECK(delta(n) < delta(n + 1));
}

}  // namespace

int main() {
  std::vector<const Kernels*> all = available_kernels();
#if defined(BIPOINTNET_X86)
  if (std::string(all.front()->name) == "avx512") all.push_back(&kAvx512);  // with and without VPOPCNTDQ
#endif
  for (const Kernels* kernels : all) {
    std::cerr << kernels->name << "\n";
    for (const int inputs : {1, 2, 3, 7, 8, 9, 31, 62, 63, 64, 65, 100, 127, 128, 129, 200, 515}) {
      check_bilinear(*kernels, inputs, 70);
      check_vectors(*kernels, inputs, 37);
    }
    for (const int inputs : {1, 2, 3, 4, 6, 9, 64}) check_signs(*kernels, inputs, 11);
  }
  check_codes();
  check_delta();
  return check_report();
}
