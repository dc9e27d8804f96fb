// Checks for the C++ tests. CHECK(condition) and CHECK_EQUAL(found, expected) count and print failures; the main
// function of a test ends with `return check_report();`. An exception or a signal ends the program.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

namespace bipointnet {

// Whether an emulator or sanitizers make the tests 15 times slower; and qemu keeps some memory of every thread that has
// ended. Tests then run fewer cases.
inline bool slow() { return std::getenv("BIPOINTNET_SLOW") != nullptr; }

// Whether large inputs do not fit into memory: an emulated microcontroller has 16 MiB.
#ifdef BIPOINTNET_SMALL_MEMORY
constexpr bool kSmallMemory = true;
#else
constexpr bool kSmallMemory = false;
#endif

struct CheckCounts {
  long checks = 0;
  long failures = 0;
};

inline CheckCounts& check_counts() {
  static CheckCounts counts;
  return counts;
}

inline bool check(bool holds, const char* file, int line, const std::string& text) {
  ++check_counts().checks;
  if (!holds) {
    ++check_counts().failures;
    std::cerr << file << ":" << line << ": " << text << "\n";
  }
  return holds;
}

template <class Found, class Expected>
bool check_equal(const Found& found, const Expected& expected, const char* file, int line, const char* text) {
  const bool holds = check(found == expected, file, line, text);
  if (!holds) std::cerr << "  found    " << found << "\n  expected " << expected << "\n";
  return holds;
}

// The exit status of a test.
inline int check_report() {
  const CheckCounts& counts = check_counts();
  std::cerr << counts.checks << " checks, " << counts.failures << " failures\n";
  return counts.failures == 0 && counts.checks > 0 ? 0 : 1;
}

}  // namespace bipointnet

#define CHECK(condition) ::bipointnet::check(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQUAL(found, expected) \
  ::bipointnet::check_equal(found, expected, __FILE__, __LINE__, #found " == " #expected)
