// Any bytes give a network or a FormatError. With clang: libFuzzer, -fsanitize=fuzzer,address,undefined. With another
// compiler, -DBIPOINTNET_FUZZ_FILES: a program that reads the files named on its command line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "network.h"

namespace {

// What a program that runs the network relies on.
bool sound(const bipointnet::Network& network) {
  using bipointnet::Op;
  int width = 0;
  for (const bipointnet::Layer& layer : network.layers) {
    const auto outputs = static_cast<std::size_t>(layer.outputs);
    const auto inputs = static_cast<std::size_t>(layer.inputs);
    const bool floats = layer.op == Op::bilinear_float || layer.op == Op::bilinear_scaled;
    const bool lined = layer.op == Op::bilinear_pool || floats;
    const bool binary = layer.op == Op::bilinear || lined;
    const bool dense = layer.op == Op::dense;
    if (layer.inputs != width || layer.outputs < 1) return false;
    if (layer.bits.size() != (binary ? outputs * bipointnet::words_for(inputs) : 0)) return false;
    if (layer.threshold.size() != (layer.op == Op::bilinear ? outputs : 0)) return false;
    if (layer.line.size() != (lined ? 2 * outputs : 0)) return false;
    if (layer.weight.size() != (dense ? outputs * inputs : 0)) return false;
    if (layer.bias.size() != (dense ? outputs : 0)) return false;
    width = layer.op == Op::matrix ? 0 : layer.outputs;
  }
  return width > 0 && static_cast<std::size_t>(width) == network.classes.size() &&
         network.golden.size() == network.classes.size();
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
#include <vector>

int main(int count, char** names) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i], std::ios::binary);
    if (!file) {
      std::cerr << names[i] << ": cannot be read\n";
      return 1;
    }
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::cerr << count - 1 << " files\n";
  return 0;
}
#endif
