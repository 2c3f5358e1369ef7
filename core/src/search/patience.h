// When a search within the whole no longer gets anywhere.
#pragma once

#include <algorithm>
#include <cstddef>

#include "search/objective.h"

namespace magis {

// Runs out once no better schedule was found during as many evaluations as the last one took, and
// some more. Counted in states, so that it does not depend on the clock.
class Patience {
 public:
  // `factor`: how many times as many. A graph of `op_count` operators takes so many states merely
  // to find an order in which to recompute.
  Patience(const Objective& objective, double factor, std::size_t op_count)
      : objective_(objective),
        factor_(factor),
        least_(std::max(kLeast, kForAnOperator * static_cast<double>(op_count))) {}

  // Looks at the best schedule after `evaluated` states; false once patience has run out.
  bool lasts(const Cost& best, int64_t evaluated) {
    if (!has_best_ || objective_.better(best, best_)) {
      has_best_ = true;
      best_ = best;
      found_after_ = evaluated;
    }
    const auto idle = static_cast<double>(evaluated - found_after_);
    return idle <= factor_ * (least_ + static_cast<double>(found_after_));
  }

 private:
  static constexpr double kLeast = 12'000;
  static constexpr double kForAnOperator = 40;

  const Objective& objective_;
  double factor_;
  double least_;
  Cost best_;
  bool has_best_ = false;
  int64_t found_after_ = 0;
};

}  // namespace magis
