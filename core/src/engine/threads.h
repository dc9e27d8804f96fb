// All that the core uses of threads: a parallel loop, a mutex, and variables per thread. With BIPOINTNET_NO_THREADS
// the loop runs in the calling thread and the rest does nothing; then only one thread may call the library.
#pragma once

#include <cstddef>

#ifdef BIPOINTNET_NO_THREADS

#define BIPOINTNET_THREAD_LOCAL

namespace bipointnet {

struct Mutex {};

struct Lock {
  explicit Lock(Mutex&) {}
};

template <class Work>
void parallel_for(std::size_t count, std::size_t, const Work& work) {
  for (std::size_t i = 0; i < count; ++i) work(i);
}

}  // namespace bipointnet

#else

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#define BIPOINTNET_THREAD_LOCAL thread_local

namespace bipointnet {

using Mutex = std::mutex;
using Lock = std::lock_guard<std::mutex>;

// Calls work(0), ..., work(count - 1), each once, on up to `workers` threads, including the calling one. Each thread
// takes the next item when it has finished one, so a slow core does not delay the others. If a thread cannot be
// started, fewer threads do the work. If items throw, the exception of the first such item is rethrown; later items
// may be skipped.
template <class Work>
void parallel_for(std::size_t count, std::size_t workers, const Work& work) {
  std::atomic<std::size_t> next{0};
  Mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const Lock lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(workers);
  try {
    while (threads.size() + 1 < workers) threads.emplace_back(run);
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bipointnet

#endif
