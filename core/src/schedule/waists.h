// Narrow waists: nodes before which everything earlier has to run and after which everything later.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/piece.h"

namespace magis {

// Ends of the pieces into which the stretch [begin, end) falls, increasing, the last one `end`.
// Each ends with a node that descends from all earlier nodes of the stretch and from which all
// later ones descend, leaves aside: a leaf that may as well run right after the one node that it
// waits for is moved there first, which does not raise the peak. Scheduling the pieces one by one
// is therefore as good as scheduling the stretch. O(nodes + edges).
std::vector<std::size_t> cut_at_waists(PlacedOrder& placed, std::size_t begin, std::size_t end);

}  // namespace magis
