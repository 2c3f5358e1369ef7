// How long the search may go on, counted in rounds of fixed work; the clock is looked at between
// rounds only, so what is found after a given number of rounds never depends on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "magis/search/optimize.h"

namespace magis {

// Processor time of this process.
Seconds process_seconds();

class Budget {
 public:
  // `report` is called between rounds; false stops the search. `op_count` sizes the rounds: an
  // evaluation costs about as much as there are operators.
  Budget(const OptimizeOptions& options, int op_count, std::function<bool(const Budget&)> report);

  // A candidate's change of peak and time was estimated, or its change of memory alone computed.
  // Ends the round if it is full.
  void count_scored(int64_t states = 1) {
    scored_ += states;
    work_ += states * kScoringWork;
    if (work_ >= kRoundWork) end_round();
  }
  // A state's exact bytes and time were computed. Ends the round if it is full.
  void count_evaluated() {
    ++evaluated_;
    work_ += evaluation_work_;
    if (work_ >= kRoundWork || evaluated_ == state_budget_) end_round();
  }
  // What else takes time, in nanoseconds, whatever it leads to. Ends the round if it is full.
  void count_work(int64_t nanoseconds) {
    work_ += nanoseconds;
    if (work_ >= kRoundWork) end_round();
  }
  bool stopped() const { return reason_.has_value(); }

  std::optional<StopReason> reason() const { return reason_; }
  int64_t scored() const { return scored_; }
  int64_t evaluated() const { return evaluated_; }
  int64_t rounds() const { return rounds_; }
  Seconds elapsed() const;

 private:
  void end_round();

  // In units of about a nanosecond.
  static constexpr int64_t kRoundWork = 5'000'000;
  static constexpr int64_t kScoringWork = 500;
  static constexpr int64_t kEvaluationWork = 1'000;
  static constexpr int64_t kWorkPerOperator = 5;

  int64_t evaluation_work_;
  int64_t state_budget_;
  Seconds time_budget_;
  std::function<bool(const Budget&)> report_;
  std::chrono::steady_clock::time_point start_;
  int64_t work_ = 0;
  int64_t scored_ = 0;
  int64_t evaluated_ = 0;
  int64_t rounds_ = 0;
  std::optional<StopReason> reason_;
};

}  // namespace magis
