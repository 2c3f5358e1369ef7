// What a scheduler has to know of a graph: nodes that run one after another, what must run before
// what, and what each node allocates and lets go.
//
// A node is one operator, or a stretch of operators that stays together (the loop of a fission
// region) and then counts as one operator with an inner peak. Bytes are those of the simulator, for
// schedules that recompute nothing: a node's results live from its start, what it reads until its
// last reader has run, its scratch while it runs, outputs to the end. Inputs are persistent and no
// part of the problem.
#pragma once

#include <span>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

using NodeId = Id<struct NodeTag>;  // of a SchedulingProblem, in program order

struct SchedulingProblem {
  // Rows are indexed by node.
  Rows<OpId> operators;         // in the order in which they run
  Rows<NodeId> predecessors;    // sorted, distinct
  Rows<NodeId> successors;      // sorted, distinct
  Rows<TensorId> makes;         // what outlives the node or is never read
  Rows<TensorId> reads;         // distinct; only what dies after its last reader
  Rows<TensorId> overwritable;  // of what it reads: the first result may take over its storage
  std::vector<Bytes> results;   // bytes of what it makes
  std::vector<Bytes> scratch;   // what it holds besides, at most, while it runs

  // Indexed by tensor.
  Rows<NodeId> readers;  // in program order; empty for inputs, outputs and what stays in a node
  IdMap<TensorId, Bytes> bytes;
  IdMap<TensorId, NodeId> maker;    // invalid for inputs and what stays in a node
  IdMap<TensorId, uint8_t> output;  // lives to the end

  std::size_t size() const { return results.size(); }
  bool dies_unread(TensorId tensor) const {
    return !output[tensor] && readers[static_cast<std::size_t>(tensor.index)].empty();
  }
  static std::size_t row(NodeId node) { return static_cast<std::size_t>(node.index); }
};

// `bytes` and `scratch` are those of the graph's cost table. Every loop is one node. O(operators +
// edges).
SchedulingProblem make_scheduling_problem(const Graph& graph, const IdMap<TensorId, Bytes>& bytes,
                                          const IdMap<OpId, Bytes>& scratch);
// The same, with any stretches: runs of consecutive operators in program order that stay as they
// are. What a stretch reads from outside stays until it has ended.
SchedulingProblem make_scheduling_problem(const Graph& graph, const IdMap<TensorId, Bytes>& bytes,
                                          const IdMap<OpId, Bytes>& scratch,
                                          std::span<const std::vector<OpId>> together);
// From `begin` to `end`, of every loop that is in no other.
std::vector<std::vector<OpId>> outermost_loops(const Graph& graph);

std::vector<NodeId> program_order(const SchedulingProblem& problem);
// The operators of the nodes, in order: what Decisions::order takes.
std::vector<OpId> operators_in_order(const SchedulingProblem& problem,
                                     std::span<const NodeId> order);
// Every node once, after its predecessors.
bool is_valid_order(const SchedulingProblem& problem, std::span<const NodeId> order);

// Counts live bytes while nodes run one after another.
class LiveBytesOfOrder {
 public:
  explicit LiveBytesOfOrder(const SchedulingProblem& problem);

  Bytes live() const { return live_; }
  // Most bytes live while `node` runs, if it ran next.
  Bytes during(NodeId node) const;
  // By how much live bytes would rise from before it to after it.
  Bytes change(NodeId node) const;
  // Readers of a tensor that have not run yet.
  int waiting_readers(TensorId tensor) const { return waiting_[tensor]; }
  // Runs it; returns during(node).
  Bytes run(NodeId node);

 private:
  const SchedulingProblem& problem_;
  IdMap<TensorId, int> waiting_;
  Bytes live_ = 0;
};

// Transient bytes at the worst moment. O(nodes + reads).
Bytes peak_of(const SchedulingProblem& problem, std::span<const NodeId> order);

}  // namespace magis
