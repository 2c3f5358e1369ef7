// The search for a schedule of one graph, as part of a larger search.
#pragma once

#include "magis/schedule/decisions.h"
#include "magis/search/optimize.h"
#include "search/archive.h"

namespace magis {

struct ScheduleSearch {
  const Decisions* start = nullptr;    // a schedule to improve; none: from program order on
  const LowerBound* bound = nullptr;   // on what the larger search may find; none: it is computed
  ScheduleArchive* archive = nullptr;  // where all schedules go that it comes by
};

// Where decisions lead; what is about a search is left as it is by default.
OptimizeResult result_of(const Graph& graph, const CostTable& costs, const Decisions& decisions);

// Fission is left aside, the rest of `options` counts; progress is called on this thread.
OptimizeResult search_schedule(const Graph& graph, const CostTable& costs,
                               const OptimizeOptions& options, const ScheduleSearch& part);

}  // namespace magis
