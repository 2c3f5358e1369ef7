// The best schedule found so far.
#pragma once

#include <utility>

#include "search/archive.h"
#include "search/evaluator.h"
#include "search/objective.h"

namespace magis {

class Incumbent {
 public:
  // `archive`: where all that is offered goes too; may be null.
  Incumbent(const Objective& objective, Decisions decisions, Cost cost,
            ScheduleArchive* archive = nullptr)
      : objective_(objective), decisions_(std::move(decisions)), cost_(cost), archive_(archive) {}

  // Takes what the evaluator holds, which costs `cost` if nothing waits for copies, if it is
  // feasible and better; says whether it was.
  bool offer(const Evaluator& evaluator, Cost cost) {
    const bool wanted = archive_ && archive_->wants(cost);
    if (!wanted && !objective_.better(cost, cost_)) return false;
    if (!evaluator.feasible()) return false;
    cost.time += evaluator.exposed();
    if (wanted && archive_->wants(cost)) archive_->put({cost, evaluator.decisions()});
    if (!objective_.better(cost, cost_)) return false;
    cost_ = cost;
    decisions_ = evaluator.decisions();
    return true;
  }
  bool offer(const Incumbent& other) {
    if (!objective_.better(other.cost_, cost_)) return false;
    cost_ = other.cost_;
    decisions_ = other.decisions_;
    return true;
  }
  // Takes what is feasible and no slower, though it may be larger: with fewer copies, say.
  void replace_if_as_fast(const Evaluator& evaluator, Cost cost) {
    if (!evaluator.feasible()) return;
    cost.time += evaluator.exposed();
    if (cost.time > cost_.time) return;
    cost_ = cost;
    decisions_ = evaluator.decisions();
  }
  const Objective& objective() const { return objective_; }
  const Decisions& decisions() const { return decisions_; }
  const Cost& cost() const { return cost_; }
  bool met() const { return objective_.met(cost_); }

 private:
  Objective objective_;
  Decisions decisions_;
  Cost cost_;
  ScheduleArchive* archive_;
};

// Makes the evaluator hold `decisions`, by edits alone where the order is the same.
inline void restore(Evaluator& evaluator, const Decisions& decisions) {
  if (evaluator.has_order(decisions.order)) {
    evaluator.set_schedule(decisions);
    evaluator.forget();
  } else {
    evaluator.load(decisions);
  }
}

}  // namespace magis
