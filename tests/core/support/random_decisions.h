// Random orders and modes over a graph.
#pragma once

#include <vector>

#include "magis/schedule/decisions.h"
#include "support/random.h"

namespace magis::test {

// Any order that respects precedence.
std::vector<OpId> random_order(const Graph& graph, Random& random);

// A random order, and about `percent` of the uses asking for their tensor to be made again, plain
// and anew, as far as lower() lets them: a use whose chain would lead to what cannot run again
// keeps.
Decisions random_decisions(const Graph& graph, Random& random, int percent);

// About `percent` of the uses get a gap at a random place, as far as lower() lets them.
void add_random_gaps(const Graph& graph, Random& random, int percent, Decisions& decisions);

}  // namespace magis::test
