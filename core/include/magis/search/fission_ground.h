// Where fission takes place: a graph with its losses opened, in which regions are looked for, and
// the graph given, in which they are split.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "magis/analysis/candidates.h"
#include "magis/schedule/decisions.h"
#include "magis/simulate/profile.h"
#include "magis/transform/opening.h"

namespace magis {

class FissionGround {
 public:
  // Keeps a reference to `graph`, which has to outlive it.
  FissionGround(const Graph& graph, const DeviceProfile& profile);
  FissionGround(const FissionGround&) = delete;
  FissionGround& operator=(const FissionGround&) = delete;

  // Of the graph with all its losses and means opened; regions name its operators.
  const AxisGraph& axes() const { return axes_; }
  const OpenedGraph& opened() const { return opened_; }
  // By what they save of the peak in program order, best first.
  std::vector<FissionCandidate> candidates(const CandidateOptions& options = {}) const;
  // The largest region along the first dimension of a tensor of the batch, in `parts` parts, the
  // last one perhaps shorter. Throws UserError if there is none, naming the operators that stand in
  // the way, or if the axis is too short.
  FissionRegion batch_region(int64_t parts) const;
  // What ends that axis, in words, in program order.
  std::vector<std::string> batch_obstacles() const;
  // What is live at the peak of a plan for a graph that split() made, as tensors of the opened
  // graph: parts count as theirs.
  Hotspots hotspots(const Graph& split, const Decisions& decisions, const CostTable& costs) const;
  // The graph given with `regions` in parts, its masks and what the regions hold opened; or why it
  // cannot be. Requires valid regions.
  std::variant<Graph, std::string> split(std::span<const FissionRegion> regions) const;

 private:
  const Graph& source_;
  const DeviceProfile profile_;
  std::vector<OpId> openable_;
  std::vector<OpId> masks_;
  OpenedGraph opened_;
  AxisGraph axes_;
};

// `child` as a region inside `parent`, in parts of `part` of its units at most: where it, or a
// region inside it, is on the same axis, it splits the parent's part. Not checked:
// why_invalid(axes, parent) says if it may.
void add_child(FissionRegion& parent, FissionRegion child, int64_t part);

}  // namespace magis
