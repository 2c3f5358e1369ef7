// The rules by which a schedule trades time for memory, one use of one tensor at a time (the
// paper's scheduling rules, section 5.2), and where swapped tensors leave and come back.
#pragma once

#include <vector>

#include "search/evaluator.h"

namespace magis {

// A use gets another mode: recompute (rematerialization), swap (store and load), or keep, which
// takes either back.
struct ScheduleStep {
  EdgeId edge;
  Mode mode = Mode::keep;
  bool operator==(const ScheduleStep&) const = default;
};

// The use may get that mode: its tensor is kept for it now, or is not and is to be. Whether the
// schedule is feasible then, the evaluator has to say.
bool may_set_mode(const Evaluator& evaluator, EdgeId edge, Mode mode);

// All steps, by edge. Rematerialization and swapping are matched only where they end what is live
// at the peak, between one use and the next (the paper's heuristic: subgraphs without a hotspot are
// left out), unless `everywhere`; what takes them back, everywhere.
std::vector<ScheduleStep> schedule_steps(const Evaluator& evaluator, bool everywhere);

// Places the gaps of all swapped uses anew (paper section 6.2): stores as early, loads as late as
// just hides them in their body. What cannot be hidden is away as long as possible.
void place_swaps(Evaluator& evaluator);

}  // namespace magis
