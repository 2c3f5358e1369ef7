// The plain way to the least peak, as a twin of the schedulers: dynamic programming over all
// downsets, length by length, without pruning.
#pragma once

#include <optional>

#include "magis/schedule/scheduling_problem.h"

namespace magis::test {

// Requires at most 64 nodes. Nothing if a length has more than `most` downsets.
std::optional<Bytes> least_peak_by_downsets(const SchedulingProblem& problem,
                                            std::size_t most = 1'000'000);

// Least and largest peak over every single order. Requires few nodes: it visits all orders.
struct PeakRange {
  Bytes least;
  Bytes most;
};
PeakRange peaks_of_all_orders(const SchedulingProblem& problem);

}  // namespace magis::test
