// A search that consists of many, on several threads: how much of its budget is used, what is best
// so far, and whether it has to stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "magis/search/optimize.h"
#include "search/objective.h"

namespace magis {

class Monitor {
 public:
  // The caller's callback is called on the thread that makes the monitor, and on no other. The
  // budget of time begins here. Keeps a reference to `options`.
  Monitor(const OptimizeOptions& options, Bytes persistent);

  Seconds elapsed() const;
  Seconds left() const { return options_.time_budget - elapsed(); }
  // Evaluations that are left; huge if there is no bound.
  int64_t states_left() const;
  bool interrupted() const { return stop_; }
  bool stopped() const { return interrupted() || left() <= 0 || states_left() <= 0; }

  // What no plan stays below, for those who look on.
  void set_bound(Bytes bound) { bound_ = bound; }
  // The best schedule of all, and what the searches that are through have counted.
  void set_objective(const Objective& objective) { objective_ = objective; }
  void set_best(const Cost& best, bool met);
  void count(int64_t scored, int64_t evaluated);
  int64_t scored() const;
  int64_t evaluated() const;

  // As many searches as `slots` begin, side by side.
  void begin(std::size_t slots);
  // One of them says how far it is, on its own thread. False: it has to stop.
  bool report(std::size_t slot, const Progress& progress);
  // Calls back, if this is the thread that made the monitor; does nothing on others.
  void tell();

 private:
  struct Slot {
    int64_t scored = 0;
    int64_t evaluated = 0;
    Cost best;
    bool met = false;
    bool has_best = false;
  };

  const OptimizeOptions& options_;
  Objective objective_;  // changes between searches only
  const Bytes persistent_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::thread::id owner_ = std::this_thread::get_id();
  Bytes bound_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;  // for what follows
  Slot through_;
  std::vector<Slot> running_;
};

}  // namespace magis
