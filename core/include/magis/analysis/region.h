// Fission regions: which operators run in parts, along which axis (paper section 4.2, F-Trans).
#pragma once

#include <cstdint>
#include <vector>

#include "magis/base/id.h"

namespace magis {

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
  // Disjoint regions inside this one. A child on the same axis as this one (its operators have the
  // same labels) splits this one's part: its length is this one's part.
  std::vector<FissionRegion> children;

  int64_t part_count() const { return (length + part - 1) / part; }
  bool operator==(const FissionRegion&) const = default;
};

}  // namespace magis
