// Many callers of one model.
#pragma once

#include <cstddef>

#ifndef BIPOINTNET_NO_THREADS
#include <thread>
#include <vector>
#endif

namespace bipointnet {

// Calls work(0), ..., work(count - 1), each in a thread of its own; without threads, one after another.
template <class Work>
void at_once(std::size_t count, const Work& work) {
#ifdef BIPOINTNET_NO_THREADS
  for (std::size_t i = 0; i < count; ++i) work(i);
#else
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
#endif
}

}  // namespace bipointnet
