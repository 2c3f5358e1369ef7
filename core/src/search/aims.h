// What an improvement step strives for, given the best schedule so far.
#pragma once

#include <algorithm>

#include "search/objective.h"

namespace magis {

struct Aims {
  Bytes peak = 0;            // a schedule with no more than this ...
  Picoseconds time = 0;      // ... in no more than this beats the incumbent
  bool shrink_peak = false;  // lower is better still; else: less time is
};

// Peak and time that beat the incumbent by about `share` of what is left to gain.
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

}  // namespace magis
