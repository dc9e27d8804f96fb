// Writes a few small packed models, the initial corpus of the fuzzer, into the folder given on the command line.
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
  if (count != 2) {
    std::cerr << "usage: make_corpus FOLDER\n";
    return 2;
  }
  const std::string folder = arguments[1];
  const bool written =
      write(folder + "/tiny.bpn", tiny_file().bytes()) && write(folder + "/small.bpn", small_file().bytes()) &&
      write(folder + "/full.bpn", full_file().bytes()) && write(folder + "/scaled.bpn", scaled_file().bytes()) &&
      write(folder + "/segments.bpn", segments_file().bytes());
  return written ? 0 : 1;
}
