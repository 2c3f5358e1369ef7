// Time on three engines: compute, and one for copies each way. Each runs one thing after another; a
// copy begins once the step has issued it, the one before it is through, and, on its way back, once
// it has arrived on the host. The step waits at await statements only.
#pragma once

#include "magis/simulate/simulate.h"

namespace magis {

struct Timing {
  Seconds seconds = 0;
  Seconds exposed = 0;  // of these, waiting for copies
};

// `timeline` and `copies`, if given, receive what runs and what is copied; of a loop that copies in
// its body, the first iteration. A loop's iterations after the second are like the second: all
// copies of an iteration are awaited in it. Iterations of such a loop share its time evenly, a
// shorter last one too. The points' bytes are left at 0. O(statements).
Timing time_on_engines(const Graph& graph, const Program& program, const CostTable& costs,
                       std::vector<TimelinePoint>* timeline, std::vector<CopyPoint>* copies);

}  // namespace magis
