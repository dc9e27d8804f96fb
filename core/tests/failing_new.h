// Replaces operator new by one that fails when a test says so. One file of a program may include it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace bipointnet {

inline std::atomic<long>& allocations_left() {
  static std::atomic<long> left{-1};
  return left;
}

// Runs `work`, of whose allocations the one after the first `spare` fails. False if it throws std::bad_alloc.
template <class Work>
bool succeeds_after(long spare, const Work& work) {
  allocations_left() = spare;
  bool succeeds = true;
  try {
    work();
  } catch (const std::bad_alloc&) {
    succeeds = false;
  }
  allocations_left() = -1;
  return succeeds;
}

}  // namespace bipointnet

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (bipointnet::allocations_left() >= 0 && bipointnet::allocations_left()-- == 0) return nullptr;
  return std::malloc(bytes > 0 ? bytes : 1);
}

void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}

// Inlined into a caller whose `new` is not, free() would look to GCC like a mistake.
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
