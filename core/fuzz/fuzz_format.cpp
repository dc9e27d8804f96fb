// The fuzz target of packed models: any bytes give a model or a FormatError, and a model computes what the interpreter
// of docs/format.md in naive.h computes. A mutation breaks the checksum, so the target also reads the bytes with a new
// one. make_corpus writes its first files: random programs. With clang: libFuzzer, -fsanitize=fuzzer,address,undefined.
// With another compiler and -DBIPOINTNET_FUZZ_FILES: a program that reads the files on its command line.
#include "engine_runs.h"
#include "packed_writer.h"

using namespace bipointnet;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Bytes file(bytes, bytes + size);
  fuzz::parsed(file);
  sign(file);
  if (auto network = fuzz::parsed(file)) fuzz::run(std::move(*network));
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
