// Dominator tree of a part of a graph (paper section 4.3): v dominates u if every path from the
// root to u leads through v.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

// Nodes are numbered in program order, the root is 0. Operators that the root does not reach are no
// nodes: what only depends on weights, masks, labels or constants breaks no dominance.
class DominatorTree {
 public:
  // Of the subgraph that `operators` (in program order) induce; the root leads to `entries`.
  DominatorTree(const Graph& graph, std::span<const OpId> operators, std::span<const OpId> entries);

  int size() const { return static_cast<int>(nodes_.size()); }
  // Invalid for the root.
  OpId op(int node) const { return at(node).op; }
  // -1: not reached.
  int node(OpId op) const { return node_of_[op]; }
  // The immediate dominator; -1 for the root.
  int parent(int node) const { return at(node).parent; }
  // Whether every path to `inner` leads through `outer`; a node dominates itself.
  bool dominates(int outer, int inner) const {
    return at(outer).enter <= at(inner).enter && at(inner).enter < at(outer).leave;
  }
  // The deepest node that dominates both.
  int common_dominator(int a, int b) const;
  // What `node` dominates, without itself, in program order.
  std::vector<OpId> dominated(int node) const;
  // Position in a depth-first walk.
  int depth_first(int node) const { return at(node).enter; }

 private:
  struct Node {
    OpId op;
    int parent = -1;
    int depth = 0;
    int jump = 0;   // some ancestor, chosen so that climbing takes O(log depth) steps
    int enter = 0;  // of the subtree in depth-first order
    int leave = 0;
  };
  const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  void number_depth_first();

  std::vector<Node> nodes_;
  IdMap<OpId, int> node_of_;
};

}  // namespace magis
