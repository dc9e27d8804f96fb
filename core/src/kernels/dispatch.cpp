// CPU detection. Compiled without special flags: it must run everywhere.
#include "kernels/dispatch.h"

#include <cstdlib>

namespace bipointnet {
namespace {

constexpr const char* kKnown[] = {"portable", "avx2", "avx512", "neon", "wasm"};

std::string names_of(const std::vector<const Kernels*>& all) {
  std::string names;
  for (const Kernels* kernels : all) names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  return names;
}

}  // namespace

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> found;
#if defined(BIPOINTNET_X86)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("popcnt")) {
    found.push_back(__builtin_cpu_supports("avx512vpopcntdq") ? &kAvx512Popcount : &kAvx512);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt")) {
    found.push_back(&kAvx2);
  }
#endif
#if defined(BIPOINTNET_NEON)
  found.push_back(&kNeon);
#endif
#if defined(BIPOINTNET_WASM)
  found.push_back(&kWasm);
#endif
  found.push_back(&kPortable);
  return found;
}

const Kernels& find_kernels(std::string name) {
  const std::vector<const Kernels*> here = available_kernels();
  std::string source = "instruction set";
  if (name.empty()) {
    const char* wanted = std::getenv("BIPOINTNET_ISA");
    if (wanted == nullptr || *wanted == '\0') return *here.front();
    name = wanted;
    source = "BIPOINTNET_ISA";
  }
  for (const Kernels* kernels : here) {
    if (name == kernels->name) return *kernels;
  }
  for (const char* known : kKnown) {
    if (name == known)
      throw IsaError(source + ": " + name + " does not run on this machine, expected " + names_of(here));
  }
  throw IsaError(source + ": '" + name + "' is not a known instruction set, expected one of " + names_of(here));
}

}  // namespace bipointnet
