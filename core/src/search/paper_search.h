// The search as the MAGIS paper published it (section 6.2, Alg. 3): a second strategy, so that its
// figures can be redrawn and ours held against it.
//
// A state is a fission tree (which regions run in parts, in how many), the steps by which its
// schedule trades time for memory, and the order. States wait in a queue, the best one first. The
// best is expanded by single edits - mutations of its tree, scheduling rules at its hotspots. What
// was seen before, by its hash, is dropped; every other successor is put in order again around what
// changed, simulated exactly, and queued if it is better than the best state relaxed by 1.1.
//
// Departures: a copy runs right before the use that asks for it and stays for later ones; of the
// tree's candidates those are left out whose inputs and results in full take more than splitting
// them in two saves (section 4.3 prices the inputs alone). A rewrite is one rule at all equal
// places of repeated layers, where that saves time, and comes before regions are chosen.
#pragma once

#include "magis/search/optimize.h"

namespace magis {

// Throws UserError if options are set that do not go with the strategy.
void check_strategy(const OptimizeOptions& options);

// Never worse than program order. The same for the same seed and state budget. On one thread.
OptimizeResult optimize_as_published(const Graph& graph, const DeviceProfile& profile,
                                     const OptimizeOptions& options);

}  // namespace magis
