// The fuzz target of packed models: any bytes give a model or a FormatError, and a model computes what the interpreter
// of docs/format.md in naive.h computes. A mutation breaks the checksum, so the target also reads the bytes with a new
// one. With clang: libFuzzer, -fsanitize=fuzzer,address,undefined. With another compiler and -DBIPOINTNET_FUZZ_FILES: a
// program that reads the files on its command line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "naive.h"
#include "packed_writer.h"

namespace {

constexpr std::size_t kMaxWork = 1 << 20;  // products of a run, and numbers in memory

using bipointnet::Bytes;

// A join lists earlier kept values, each once, at least one of points, and its width is the sum of theirs.
bool sound_join(const bipointnet::Network& network, const bipointnet::Layer& layer, std::size_t kept) {
  if (layer.op != bipointnet::Op::join) return layer.joined.empty();
  std::vector<bool> seen(kept);
  bool points = false;
  int width = 0;
  for (const int number : layer.joined) {
    const auto place = static_cast<std::size_t>(number);
    if (place >= kept || seen[place]) return false;
    seen[place] = true;
    points |= network.kept[place].on_points;
    width += network.kept[place].width;
  }
  return points && width == layer.outputs;
}

// The invariants that the engine relies on.
bool sound(const bipointnet::Network& network) {
  using bipointnet::Op;
  int width = 0;
  std::size_t kept = 0;
  bool categories = false;
  for (const bipointnet::Layer& layer : network.layers) {
    const auto outputs = static_cast<std::size_t>(layer.outputs);
    const auto inputs = static_cast<std::size_t>(layer.inputs);
    const bool floats = layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled;
    const bool lined = layer.op == Op::bilinear_pool || floats;
    const bool binary = layer.op == Op::bilinear || lined;
    const bool dense = layer.op == Op::dense;
    const bool starts = layer.op == Op::points || layer.op == Op::category || layer.op == Op::join;
    const bool keeps = layer.op == Op::keep || (layer.op == Op::bilinear_pool && !layer.threshold.empty());
    const bool bounded = layer.op == Op::bilinear || (layer.op == Op::bilinear_pool && keeps);
    if (layer.inputs != (starts ? 0 : width) || layer.outputs < 1 || (starts && layer.on_points)) return false;
    if (layer.kept != (keeps ? static_cast<int>(kept) : -1)) return false;
    if (keeps && (kept >= network.kept.size() || network.kept[kept].width != layer.outputs)) return false;
    if (keeps && network.kept[kept].on_points != layer.on_points) return false;
    if (!sound_join(network, layer, kept)) return false;
    if (layer.op == Op::category && outputs != network.categories.size()) return false;
    kept += keeps;
    categories |= layer.op == Op::category;
    if (layer.bits.size() != (binary ? outputs * bipointnet::words_for(inputs) : 0)) return false;
    if (layer.threshold.size() != (bounded ? outputs : 0)) return false;
    if (layer.line.size() != (lined ? 2 * outputs : 0)) return false;
    if (layer.weight.size() != (dense ? outputs * inputs : 0)) return false;
    if (layer.bias.size() != (dense ? outputs : 0)) return false;
    width = layer.op == Op::matrix ? 0 : layer.outputs;
  }
  const std::size_t rows = network.per_point() ? static_cast<std::size_t>(network.golden_points) : 1;
  return width > 0 && static_cast<std::size_t>(width) == network.classes.size() && kept == network.kept.size() &&
         categories == !network.categories.empty() &&
         (network.task == bipointnet::Task::part || (!categories && network.parts.empty())) &&
         network.golden.size() == rows * network.classes.size();
}

void expect(bool holds) {
  if (!holds) std::abort();
}

std::optional<bipointnet::Network> parsed(const Bytes& bytes) {
  try {
    bipointnet::Network network = bipointnet::parse(bytes.data(), bytes.size());
    expect(sound(network));
    return network;
  } catch (const bipointnet::FormatError&) {
    return std::nullopt;
  }
}

// Whether a run on `points` points is fast.
bool is_small(const bipointnet::Network& network, std::size_t points) {
  std::size_t work = points * static_cast<std::size_t>(network.channels);
  for (const bipointnet::Layer& layer : network.layers) {
    const auto inputs = static_cast<std::size_t>(layer.inputs), outputs = static_cast<std::size_t>(layer.outputs);
    work += (layer.on_points ? points : 1) * outputs * (layer.op == bipointnet::Op::keep ? 1 : inputs + 1);
  }
  return work <= kMaxWork;
}

// The logits of a cloud, or none if they are not finite.
std::optional<std::vector<float>> logits_of(const bipointnet::Model& model, const std::vector<float>& cloud,
                                            unsigned threads) {
  const std::size_t points = cloud.size() / static_cast<std::size_t>(model.network().channels);
  std::vector<float> logits(model.logits(1, points));
  try {
    model.predict(cloud.data(), 1, points, true, threads, model.network().categories.empty() ? -1 : 0, logits.data());
  } catch (const bipointnet::InputError&) {
    return std::nullopt;
  }
  return logits;
}

void check_run(const bipointnet::Model& model, std::size_t points) {
  const bipointnet::Network& network = model.network();
  std::vector<float> cloud(points * static_cast<std::size_t>(network.channels));
  std::uint32_t state = 1;
  for (float& number : cloud) {
    state = state * 1664525 + 1013904223;
    number = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30f;
  }
  const auto found = logits_of(model, cloud, 1);
  const int category = network.categories.empty() ? -1 : 0;
  const std::vector<float> expected = flat(bipointnet::interpret(network, cloud, category).back());
  if (found) {
    expect(bipointnet::same_bits(*found, expected));
    expect(logits_of(model, cloud, 3) == found);
  } else {
    expect(std::any_of(expected.begin(), expected.end(), [](float v) { return !std::isfinite(v); }));
  }
}

// Plans the network, runs its golden cloud and compares a few runs with the interpreter. The golden logits of mutants
// are wrong, so they are first compared as the file says and then accepted whatever they are.
void run(bipointnet::Network network) {
  constexpr std::size_t kPoints[] = {1, 5, 70};
  const auto golden = static_cast<std::size_t>(network.golden_points);
  if (!is_small(network, std::max(golden, kPoints[2]))) return;
  const bipointnet::Kernels& kernels = bipointnet::find_kernels("portable");
  try {
    const bipointnet::Model model(network, kernels);
  } catch (const bipointnet::FormatError&) {
  }
  network.golden_tolerance = std::numeric_limits<double>::infinity();
  try {
    const bipointnet::Model model(std::move(network), kernels);
    for (const std::size_t points : kPoints) check_run(model, points);
  } catch (const bipointnet::FormatError&) {  // golden logits that are not finite
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Bytes file(bytes, bytes + size);
  parsed(file);
  bipointnet::sign(file);
  if (auto network = parsed(file)) run(std::move(*network));
  return 0;
}

#ifdef BIPOINTNET_FUZZ_FILES
#include <fstream>
#include <iostream>
#include <iterator>

int main(int count, char** names) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i], std::ios::binary);
    if (!file) {
      std::cerr << names[i] << ": cannot read the file\n";
      return 1;
    }
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::cerr << count - 1 << " files\n";
  return 0;
}
#endif
