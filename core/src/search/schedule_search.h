// The search for a schedule of one graph, as part of a larger search.
#pragma once

#include <cstdint>
#include <vector>

#include "magis/schedule/decisions.h"
#include "magis/search/optimize.h"
#include "search/archive.h"

namespace magis {

// Orders of little memory, of graphs whose operators have the same names: the splits of the same
// regions in different numbers of parts.
struct KnownOrders {
  uint64_t names = 0;
  std::vector<std::vector<OpId>> orders;  // empty: none are known
};
// Distinguishes graphs by their operators' names, in program order.
uint64_t operator_names(const Graph& graph);

struct ScheduleSearch {
  const Decisions* start = nullptr;   // a schedule to improve; none: from program order on
  const LowerBound* bound = nullptr;  // on what the larger search may find; none: it is computed
  // What to begin with instead of looking for good orders, if it is of such a graph; null: nothing.
  const KnownOrders* known = nullptr;
  KnownOrders* found = nullptr;  // where the orders go that it looked for; null: nowhere
  // Where the best schedule goes that was made without random numbers, to begin other searches
  // with; null: nowhere.
  Decisions* constructed = nullptr;
  ScheduleArchive* archive = nullptr;  // where all schedules go that it comes by
};

// Where decisions lead; what is about a search is left as it is by default.
OptimizeResult result_of(const Graph& graph, const CostTable& costs, const Decisions& decisions);

// Fission is left aside, the rest of `options` counts; progress is called on this thread.
OptimizeResult search_schedule(const Graph& graph, const CostTable& costs,
                               const OptimizeOptions& options, const ScheduleSearch& part);

}  // namespace magis
