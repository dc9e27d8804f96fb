// The fuzz target of the reader: any bytes give a network or a FormatError. With clang: libFuzzer,
// -fsanitize=fuzzer,address,undefined. With another compiler and -DBIPOINTNET_FUZZ_FILES: a program that reads the
// files on its command line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "format/network.h"

namespace {

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    if (!sound(bipointnet::parse(bytes, size))) std::abort();
  } catch (const bipointnet::FormatError&) {
  }
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
