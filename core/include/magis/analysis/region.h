// Fission regions: which operators run in parts, along which axis (paper section 4.2, F-Trans).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "magis/base/id.h"

namespace magis {

class AxisGraph;
class Graph;

// The axis along which an operator is split: `step` elements of its iteration axis `axis` (an index
// into AxisSignature::axes) make one unit of the region's axis.
struct Label {
  int axis = -1;
  int64_t step = 1;
  bool valid() const { return axis >= 0; }
  bool operator==(const Label&) const = default;
};

// The weakly connected, convex set of operators runs ceil(length / part) times, each time on `part`
// units of the axis; the last part may be shorter. A region with part == length is a candidate: it
// is not split.
struct FissionRegion {
  std::vector<OpId> operators;  // in program order
  std::vector<Label> labels;    // one per operator
  int64_t length = 0;           // of the axis, in units
  int64_t part = 0;             // 1 .. length
  // Disjoint regions inside this one. A child on the same axis as this one or one around it splits
  // the part of the innermost such region: that is its length, in the child's own units, which may
  // be smaller (rows of a sample).
  std::vector<FissionRegion> children;

  int64_t part_count() const { return (length + part - 1) / part; }
  bool operator==(const FissionRegion&) const = default;
};

// Why `region` or one of its children cannot be split, in words that name the operator and what is
// wrong with it; nothing if it can. What is checked:
//   every operator is pure, and its label's axis can be split into `length` units
//   every read inside continues the axis (read_fault): none of a partial result, none of all of
//     what is sliced
//   no path leaves the region and re-enters it
//   it is weakly connected
//   1 <= part <= length, and length > 1
//   children lie inside, do not overlap, can run one after another, and are valid themselves
// Operands from outside and results read outside put no condition on a region. O(graph).
std::optional<std::string> why_invalid(const AxisGraph& axes, const FissionRegion& region);
// The same for regions side by side: each valid, none overlapping, and an order exists in which
// each runs as a whole.
std::optional<std::string> why_invalid(const AxisGraph& axes,
                                       std::span<const FissionRegion> regions);

// "fission part 4 of 8 {" then "  %name axis 0 step 2" per operator, children indented, "}".
std::string to_text(const Graph& graph, const FissionRegion& region);

}  // namespace magis
