// Which parts of a graph repeat: layers of a network are the same problem many times over.
#pragma once

#include <cstdint>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

// Weisfeiler-Lehman hashes: operators with equal hashes have equal surroundings out to `radius`
// operators in both directions - names, arguments, types of results, which result is read through
// which views. Names, sites and ids do not count. O(radius * edges).
IdMap<OpId, uint64_t> structure_hashes(const Graph& graph, int radius);

// Edges whose producers and consumers are equal in that sense, read alike, grouped; groups and
// their members in order of edge. Edges to inputs are left out.
std::vector<std::vector<EdgeId>> equal_edges(const Graph& graph, int radius);

}  // namespace magis
