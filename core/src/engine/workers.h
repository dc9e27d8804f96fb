// Work shared by threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace bipointnet {

// Calls work(0), ..., work(count - 1), each once, by up to `workers` threads, this one included. A thread takes the next
// item when it is done with one, so that a slow core does not keep a fast one waiting. Where no thread can be started
// there are fewer. Of what the items throw, the exception of the first one is thrown on; later items may be left out.
template <class Work>
void share(std::size_t count, std::size_t workers, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
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
  } catch (const std::system_error&) {
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bipointnet
