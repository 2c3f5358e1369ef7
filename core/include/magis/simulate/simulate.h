// Runs a program on paper: bytes exactly as the allocator sees them, time from the cost table.
#pragma once

#include <vector>

#include "magis/schedule/program.h"
#include "magis/simulate/profile.h"

namespace magis {

struct TimelinePoint {
  int statement;  // index into Program::statements, always a run
  Seconds start, end;
  Bytes live;  // transient bytes while it runs, scratch included
};

struct CopyPoint {
  int statement;  // a store or a load
  Seconds start, end;
};

struct Simulation {
  Bytes persistent = 0;
  Bytes transient_peak = 0;  // above persistent
  Bytes peak() const { return persistent + transient_peak; }
  Seconds seconds = 0;
  Seconds exposed = 0;  // of these, waiting for copies
  Bytes host_peak = 0;  // the pool that the program needs on the host
  Bytes bytes_to_host = 0;
  Bytes bytes_to_device = 0;
  int peak_statement = -1;        // a run, or a load
  std::vector<CopyRef> hotspots;  // live at the first moment of peak, largest first
  std::vector<TimelinePoint> timeline;
  std::vector<CopyPoint> copies;
};

struct Footprint {  // the figures alone
  Bytes transient_peak = 0;
  Seconds seconds = 0;
  Seconds exposed = 0;
  Bytes host_peak = 0;
};

Simulation simulate(const Graph& graph, const Program& program, const CostTable& costs);
// Same bytes and time, nothing recorded: the fast path (BERT-base in well under 100 us, if nothing
// is swapped).
Footprint footprint(const Graph& graph, const Program& program, const CostTable& costs);

// What plans may do besides ordering and recomputing.
struct BoundedPlans {
  bool fission = false;  // split operators
  bool swap = false;     // keep tensors on the host for a while
};
// No plan of this graph can stay below it.
//
// Without splitting operators: persistent bytes plus the
// larger of the outputs alone and the largest working set of one operator: its operands that are
// not inputs, its results, its scratch (in-place considered), and what any order has to hold across
// it: outputs already made, and results that cannot be recomputed or swapped and are needed later.
// With fission, only operators without an axis that can be split have a working set of a known
// size.
struct LowerBound {
  Bytes bytes = 0;
  OpId op;  // whose working set it is; invalid if the outputs dominate
};
LowerBound lower_bound(const Graph& graph, const CostTable& costs, const BoundedPlans& plans = {});

}  // namespace magis
