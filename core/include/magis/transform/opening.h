// Opened forms, so that a region may hold what belongs to the whole batch: losses and means as a
// sum over parts and one division, random masks as bits that were drawn whole.
#pragma once

#include <span>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

// Operators of `graph` that open() knows another form of: losses with reduction "mean" and their
// backwards, means.
//
//   nll_loss_forward, mean   the number of valid labels from the labels alone; the sum of losses;
//   their
//                            quotient. Its backward reads the number and stays as it is.
//   other losses, mean       the sum of losses, divided by the number of elements; the backward of
//   the
//                            sum, on the gradient divided by that number
//   mean, mean.dim           sum, divided by the number of elements
//   magis.bernoulli          the same draw as bools, packed into bits, and unpacked: from there on
//                            an ordinary operator that is split and computed again. In a CUDA
//                            graph, divided by the probability of ones and multiplied with: applied
//                            by the kernel of native_dropout's backward, as bools
//   native_dropout           its mask drawn by itself on a tensor of no meaning, kept as bits, too;
//                            the kernel of its backward applies it
std::vector<OpId> openable_operators(const Graph& graph);
// The random masks among them, and what applies them: opening these changes no bit of any result.
// They are opened all or none.
std::vector<OpId> openable_masks(const Graph& graph);

struct OpenedGraph {
  Graph graph;
  // For every operator the one of the source that it is, or is a piece of.
  IdMap<OpId, OpId> origin;
};
// The graph with `ops` (some of openable_operators(graph)) opened. Values keep their names; the sum
// of a loss `%loss` is called `%loss_sum`. Results differ from the graph's by rounding at most.
OpenedGraph open(const Graph& graph, std::span<const OpId> ops);

}  // namespace magis
