// Where the gaps of decisions begin and end in their order.
#pragma once

#include <optional>
#include <vector>

#include "magis/schedule/decisions.h"

namespace magis {

// A tensor leaves or takes memory in front of the operator at `position`.
struct GapBorder {
  int position = 0;
  int use_position = 0;
  TensorId tensor;
};

struct GapBorders {
  std::vector<GapBorder> releases;  // in the order in which they happen; at one position by use
  std::vector<GapBorder> loads;
};

// Nothing if the gaps and the uses in mode swap do not belong together, one names a tensor that
// cannot be swapped, or one does not lie between the use and what precedes it, in the same body.
std::optional<GapBorders> gap_borders(const Graph& graph, const Decisions& decisions);

}  // namespace magis
