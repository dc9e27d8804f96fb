// Writes the initial corpus of a fuzz target into a folder: make_corpus TARGET FOLDER. For fuzz_format it is a few small
// packed models; a target without files of its own starts with nothing.
#include <fstream>
#include <iostream>

#include "packed_writer.h"

namespace {

using namespace bipointnet;

// The smallest program.
PackedFile tiny_file() {
  PackedFile file;
  file.manifest =
      packed_manifest("[\"a\",\"b\",\"c\"]", "none", "{\"op\":\"points\"},{\"op\":\"pool\",\"pool\":\"max\"}");
  file.add_f32("golden", {3});
  return file;
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
  if (target != "fuzz_format") return 0;
  const bool written =
      write(folder + "/tiny.bpn", tiny_file().bytes()) && write(folder + "/small.bpn", small_file().bytes()) &&
      write(folder + "/full.bpn", full_file().bytes()) && write(folder + "/scaled.bpn", scaled_file().bytes()) &&
      write(folder + "/segments.bpn", segments_file().bytes());
  return written ? 0 : 1;
}
