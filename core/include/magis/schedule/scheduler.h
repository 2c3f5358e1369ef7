// The order of operators: least peak memory, nothing recomputed (paper sections 6.1 and 7.3).
#pragma once

#include <span>
#include <vector>

#include "magis/schedule/scheduling_problem.h"

namespace magis {

struct Schedule {
  std::vector<NodeId> order;
  Bytes peak = 0;      // transient
  bool exact = false;  // no order has a lower peak
};

struct FullScheduleOptions {
  int states = 20'000;  // a piece's downsets that are explored exactly before a beam takes over
  int beam = 32;        // downsets of each length that the beam keeps
  int window = 48;      // nodes of the stretches in which a piece is scheduled that is too long
  int rounds = 8;       // of passes over the order, at most
};

// Schedules the whole problem. Never worse than `given`, a valid order, and `given` itself unless
// something is better.
Schedule schedule_fully(const SchedulingProblem& problem, std::span<const NodeId> given,
                        const FullScheduleOptions& options = {});
// Never worse than program order.
Schedule schedule_fully(const SchedulingProblem& problem, const FullScheduleOptions& options = {});

}  // namespace magis
