// The largest valid region that a labelling holds.
//
// Which operators to leave out is a choice: where a path leaves the labelled operators and comes
// back, either what stands before it or what stands after it has to go. Each operator thus lies
// before the region, in it, or after it; an operator never lies before one that it reads; what is
// not labelled does not lie in it; and of a read that may not stand inside, the consumer lies after
// the region or the producer before it. The heaviest region under these constraints is a minimum
// cut.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "magis/analysis/axis_graph.h"

namespace magis {

// A positive weight for each operator. What memory a region may save makes a good one.
using OpWeights = IdMap<OpId, int64_t>;

// Of the labelled operators among `allowed` (in program order), the heaviest set without a path
// that leaves and re-enters it and without a read that may not stand inside; several pieces
// perhaps.
std::vector<OpId> heaviest_set(const AxisGraph& axes, const Labelling& labelling,
                               std::span<const OpId> allowed, const OpWeights& weights);

// The heaviest connected piece of that set, as a candidate (part == length): a valid region.
// Nothing if it is empty or the axis has length 1, or if `stop`, asked now and then, says so.
std::optional<FissionRegion> largest_region(const AxisGraph& axes, const Labelling& labelling,
                                            std::span<const OpId> allowed, const OpWeights& weights,
                                            const std::function<bool()>& stop = {});

// The largest region, the largest in what it leaves over, and so on: at most `limit`.
std::vector<FissionRegion> largest_regions(const AxisGraph& axes, const Labelling& labelling,
                                           std::span<const OpId> allowed, const OpWeights& weights,
                                           int limit, const std::function<bool()>& stop = {});

}  // namespace magis
