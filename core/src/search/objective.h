// What the user asked for.
#pragma once

#include <algorithm>
#include <limits>
#include <tuple>

#include "magis/search/optimize.h"
#include "search/problem.h"

namespace magis {

struct Cost {
  Bytes peak = 0;  // transient
  Picoseconds time = 0;
  bool operator==(const Cost&) const = default;
};

// A limit on time is kept to one part in 10^9: that is how finely the search counts it.
class Objective {
 public:
  Objective(const Limit& limit, Bytes persistent)
      : kind_(limit.kind),
        peak_limit_(limit.kind == Limit::Kind::memory ? limit.bytes - persistent : kNoLimit),
        time_limit_(limit.kind == Limit::Kind::latency ? to_picoseconds(limit.seconds * (1 + 1e-9))
                                                       : kNoLimit) {}

  bool limits_memory() const { return kind_ == Limit::Kind::memory; }
  Bytes peak_limit() const { return peak_limit_; }        // transient; huge if time is limited
  Picoseconds time_limit() const { return time_limit_; }  // huge if memory is limited
  bool met(const Cost& cost) const { return cost.peak <= peak_limit_ && cost.time <= time_limit_; }
  // The limited quantity counts only where it exceeds its limit; then the other one; then the first
  // again.
  bool better(const Cost& a, const Cost& b) const {
    return std::tuple(excess(a), free(a), limited(a)) < std::tuple(excess(b), free(b), limited(b));
  }

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;

 private:
  int64_t limited(const Cost& cost) const { return limits_memory() ? cost.peak : cost.time; }
  int64_t free(const Cost& cost) const { return limits_memory() ? cost.time : cost.peak; }
  int64_t excess(const Cost& cost) const {
    return std::max(limited(cost), limits_memory() ? peak_limit_ : time_limit_);
  }

  Limit::Kind kind_;
  Bytes peak_limit_;
  Picoseconds time_limit_;
};

}  // namespace magis
