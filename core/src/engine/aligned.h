// Vectors that start on a cache line, as the loads of the kernels require. Sizes that overflow are std::bad_alloc.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace bipointnet {

// a * b, a number of items in memory.
inline std::size_t checked_product(std::size_t a, std::size_t b) {
  if (b != 0 && a > static_cast<std::size_t>(-1) / b) throw std::bad_alloc();
  return a * b;
}

template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(checked_product(count, sizeof(T)), kAlignment));
  }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const AlignedAllocator&) const { return true; }
  bool operator!=(const AlignedAllocator&) const { return false; }
};

template <class T>
using Aligned = std::vector<T, AlignedAllocator<T>>;

}  // namespace bipointnet
