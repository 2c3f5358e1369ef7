// Where a search's time goes.
#pragma once

#include <chrono>

#include "magis/search/optimize.h"

namespace magis {

// Adds the time until it goes out of scope to one phase.
class PhaseTimer {
 public:
  explicit PhaseTimer(Seconds& phase) : phase_(phase), start_(Clock::now()) {}
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  ~PhaseTimer() { phase_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Seconds& phase_;
  Clock::time_point start_;
};

}  // namespace magis
