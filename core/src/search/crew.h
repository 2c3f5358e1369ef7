// Independent tasks on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace magis {

class Crew {
 public:
  // `threads`: this one among them; at least 1.
  explicit Crew(int threads);
  // Runs task(0) .. task(count - 1), each once, on this thread and others, and returns when all are
  // through. Meanwhile calls `idle` on this thread every now and then while it waits for others. An
  // exception of a task is thrown again here, that of the first task if there are several; the
  // others are run all the same.
  void run(std::size_t count, const std::function<void(std::size_t)>& task,
           const std::function<void()>& idle) const;

 private:
  std::size_t threads_;
};

}  // namespace magis
