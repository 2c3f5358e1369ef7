// Fission: the graph in which regions run part by part (paper section 4.2, F-Trans).
#pragma once

#include <span>
#include <string>
#include <variant>

#include "magis/analysis/region.h"
#include "magis/graph/graph.h"

namespace magis {

// The graph in which every region of `regions`, and of their children, with part < length is a loop
// (ARCHITECTURE.md, "Fission"); or why it cannot be. Regions with part == length are ignored, their
// children are not.
//
// Values that cross no border of a region keep their names. A result of a region has the name of
// the tensor that it puts together; the part that an operator makes of it is called `<name>_part`.
// Bodies keep program order; a region stands as late as the operators before it in program order
// allow. What an operator adds once to a sum (a bias) is added to the result of the outermost
// region that splits the sum.
//
// Requires regions that are valid (analysis/region.h): disjoint, convex, with labels that agree
// along every tensor read inside. What only types and layouts decide is decided here: a view that a
// part's strides do not allow reads a contiguous copy; a result that is not dense is refused.
std::variant<Graph, std::string> fission(const Graph& graph,
                                         std::span<const FissionRegion> regions);

}  // namespace magis
