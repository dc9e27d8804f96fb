// Writes the initial corpus of a fuzz target into a folder: make_corpus TARGET FOLDER. For fuzz_format and
// fuzz_reader it is a few small packed models and random programs, for fuzz_program random bytes, which choose programs;
// another target starts with nothing.
#include <fstream>
#include <iostream>

#include "network_text.h"
#include "packed_writer.h"
#include "random_program.h"

namespace {

using namespace bipointnet;

constexpr std::size_t kMostBytes = 4096;  // longer inputs are cut by the fuzzer
constexpr int kPrograms = 60;

// A random program whose file is small; its golden vector accepts any logits.
Bytes random_file(random::Source& source) {
  for (;;) {
    Network network = random::random_program(source, {9, 4, 1, 2, 8});
    network.golden_points = 5;
    network.golden_seed = 1;
    network.golden_tolerance = 1e30;
    network.golden.assign((network.per_point() ? 5 : 1) * network.classes.size(), 0);
    Bytes bytes = packed(network).bytes();
    if (bytes.size() <= kMostBytes) return bytes;
  }
}

Bytes random_bytes(random::Source& source) {
  Bytes bytes;
  for (int i = source.between(1, 300); i > 0; --i) bytes.push_back(static_cast<std::uint8_t>(source.word()));
  return bytes;
}

bool write(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) std::cerr << path << ": cannot write the file\n";
  return static_cast<bool>(file);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: make_corpus TARGET FOLDER\n";
    return 2;
  }
  const std::string target = arguments[1], folder = arguments[2];
  random::Source source(1);
  bool written = true;
  for (int i = 0; i < kPrograms && written && target == "fuzz_program"; ++i) {
    written = write(folder + "/bytes" + std::to_string(i), random_bytes(source));
  }
  if (target != "fuzz_format" && target != "fuzz_reader") return written ? 0 : 1;
  written =
      write(folder + "/small.bpn", small_file().bytes()) && write(folder + "/full.bpn", full_file().bytes()) &&
      write(folder + "/scaled.bpn", scaled_file().bytes()) && write(folder + "/groups.bpn", groups_file().bytes()) &&
      write(folder + "/segments.bpn", segments_file().bytes());
  for (int i = 0; i < kPrograms && written; ++i) {
    written = write(folder + "/program" + std::to_string(i) + ".bpn", random_file(source));
  }
  return written ? 0 : 1;
}
