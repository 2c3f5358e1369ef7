// What an improvement step strives for, given the best schedule so far, and how far a schedule is
// from it.
#pragma once

#include <algorithm>

#include "search/incumbent.h"

namespace magis {

struct Aims {
  Bytes peak = 0;            // a schedule with no more than this ...
  Picoseconds time = 0;      // ... in no more than this beats the incumbent
  bool shrink_peak = false;  // lower is better still; else: less time is
};

// Peak and time that beat the incumbent; by about `share` of it where one of them is to shrink.
inline Aims aims(const Incumbent& incumbent, double share) {
  const Objective& objective = incumbent.objective();
  const Cost& best = incumbent.cost();
  const auto less = [share](int64_t value) {
    return value - std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(value)));
  };
  if (!objective.limits_memory()) return {less(best.peak), objective.time_limit(), true};
  if (!incumbent.met()) {
    return {std::max(objective.peak_limit(), less(best.peak)), Objective::kNoLimit, true};
  }
  return {objective.peak_limit(), best.time - 1, false};
}

// A single number to descend on where neither peak nor time alone shows progress: the overflow
// above the aims and the time beyond them, as shares; and a little for time where both are kept.
class Energy {
 public:
  Energy(const Evaluator& evaluator, const Aims& aims) : aims_(aims) {
    segments_ = evaluator.op_count();
    for (const Picoseconds time : evaluator.problem().time) {
      least_time_ += static_cast<double>(time);
    }
  }

  double of(const Evaluator::Usage& usage, Picoseconds time) const {
    constexpr double kTimeWeight = 3;
    constexpr double kSlackWeight = 0.02;
    const double peak = static_cast<double>(std::max<Bytes>(aims_.peak, 1));
    double energy = static_cast<double>(usage.overflow) / (peak * segments_);
    if (usage.peak > aims_.peak) energy += static_cast<double>(usage.peak - aims_.peak) / peak;
    if (time > aims_.time) {
      energy += kTimeWeight * static_cast<double>(time - aims_.time) / least_time_;
    }
    return energy + kSlackWeight * static_cast<double>(time) / least_time_;
  }
  const Aims& aims() const { return aims_; }
  void set_aims(const Aims& aims) { aims_ = aims; }

 private:
  Aims aims_;
  double segments_ = 0;
  double least_time_ = 0;
};

}  // namespace magis
