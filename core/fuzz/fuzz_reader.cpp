// The fuzz target of the reader alone: bytes with a checksum that fits give a network that keeps the invariants of
// sound.h, or a FormatError. It does not run the network, so it tries far more files per second than fuzz_format.
#include "engine_runs.h"
#include "packed_writer.h"

using namespace bipointnet;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  Bytes file(bytes, bytes + size);
  sign(file);
  fuzz::parsed(file);
  return 0;
}
