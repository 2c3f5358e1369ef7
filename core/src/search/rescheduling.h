// Incremental scheduling (paper section 6.1, Alg. 2) of a schedule in which tensors are made again
// and swapped.
#pragma once

#include <optional>
#include <vector>

#include "magis/schedule/scheduler.h"
#include "search/evaluator.h"

namespace magis {

// Small enough for thousands of states a second.
RescheduleOptions rescheduling_options();

// Schedules the body of `loop` (invalid: the step itself) anew around each group of changed
// operators, one after the other. What the new order is in full, swaps placed anew, if it differs
// from the evaluator's and is feasible: `trial` holds it then. Operators outside the body do not
// count.
std::optional<Decisions> rescheduled(const Evaluator& evaluator, Evaluator& trial,
                                     IncrementalScheduler& scheduler, LoopId loop,
                                     const std::vector<std::vector<OpId>>& changed);

}  // namespace magis
