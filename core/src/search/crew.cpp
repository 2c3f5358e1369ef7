#include "search/crew.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "magis/base/error.h"

namespace magis {

Crew::Crew(int threads) : threads_(static_cast<std::size_t>(threads)) {
  MAGIS_CHECK(threads >= 1, "a crew of " << threads << " threads");
}

void Crew::run(std::size_t count, const std::function<void(std::size_t)>& task,
               const std::function<void()>& idle) const {
  constexpr std::chrono::milliseconds kIdle(20);
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::condition_variable all_through;
  std::size_t through = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      const std::scoped_lock lock(mutex);
      if (++through == count) all_through.notify_one();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads_, count); ++i) others.emplace_back(work);
    work();
    std::unique_lock lock(mutex);
    while (!all_through.wait_for(lock, kIdle, [&] { return through == count; })) {
      lock.unlock();
      idle();
      lock.lock();
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace magis
