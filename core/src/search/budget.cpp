#include "search/budget.h"

#include <ctime>
#include <utility>

namespace magis {

Seconds process_seconds() {
  return static_cast<Seconds>(std::clock()) / static_cast<Seconds>(CLOCKS_PER_SEC);
}

Budget::Budget(const OptimizeOptions& options, int op_count,
               std::function<bool(const Budget&)> report)
    : evaluation_work_(kEvaluationWork + kWorkPerOperator * op_count),
      state_budget_(options.state_budget > 0 ? options.state_budget : -1),
      time_budget_(options.time_budget),
      report_(std::move(report)),
      start_(std::chrono::steady_clock::now()) {}

Seconds Budget::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Budget::end_round() {
  work_ = 0;
  ++rounds_;
  if (stopped()) return;
  if (report_ && !report_(*this)) {
    reason_ = StopReason::interrupted;
  } else if (evaluated_ == state_budget_) {
    reason_ = StopReason::state_budget;
  } else if (elapsed() >= time_budget_) {
    reason_ = StopReason::time_budget;
  }
}

}  // namespace magis
