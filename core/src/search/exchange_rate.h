// What a schedule search makes of a plan in program order: time is exchanged for memory.
#pragma once

#include <algorithm>
#include <cmath>

#include "search/objective.h"

namespace magis {

// Each per cent of time buys about the same share of what memory is left: the first recomputations
// are cheap, later ones dear. Learnt from the searches so far.
class ExchangeRate {
 public:
  ExchangeRate(const Objective& objective, Picoseconds base_time)
      : objective_(objective),
        base_time_(static_cast<double>(std::max<Picoseconds>(base_time, 1))) {}

  // A search made `after` out of `before`.
  void learn(const Cost& before, const Cost& after) {
    const double time = static_cast<double>(after.time - before.time) / base_time_;
    if (time < kLeastTime || after.peak >= before.peak) return;
    total_ += std::clamp(log_ratio(before.peak, after.peak) / time, kLeast, kMost);
    ++count_;
  }

  // The lower, the better a search from here is likely to end; infinite if it cannot meet the
  // limit: no search takes time away.
  double promise(const Cost& plain) const {
    const double time = static_cast<double>(plain.time) / base_time_;
    if (objective_.limits_memory()) {
      const double missing = log_ratio(plain.peak, std::max<Bytes>(objective_.peak_limit(), 1));
      return time + std::max(0.0, missing) / rate();
    }
    const double left = static_cast<double>(objective_.time_limit()) / base_time_ - time;
    if (left < 0) return HUGE_VAL;
    return std::log(static_cast<double>(std::max<Bytes>(plain.peak, 1))) - rate() * left;
  }

 private:
  static constexpr double kLeastTime = 0.005;
  static constexpr double kLeast = 1;
  static constexpr double kMost = 40;
  static constexpr double kFirst = 8;  // as if one search had shown it: a third off for 5 %

  double rate() const { return (kFirst + total_) / (1 + count_); }
  static double log_ratio(Bytes a, Bytes b) {
    return std::log(static_cast<double>(std::max<Bytes>(a, 1)) / static_cast<double>(b));
  }

  Objective objective_;
  double base_time_;
  double total_ = 0;
  int count_ = 0;
};

}  // namespace magis
