#include "magis/analysis/dominators.h"

#include <algorithm>

namespace magis {

// The graph has no cycles, so one pass in program order suffices: a node's immediate dominator is
// the deepest node that dominates all of its reached predecessors.
DominatorTree::DominatorTree(const Graph& graph, std::span<const OpId> operators,
                             std::span<const OpId> entries)
    : nodes_(1), node_of_(graph.op_count(), -1) {
  IdMap<OpId, bool> is_entry(graph.op_count(), false);
  for (const OpId op : entries) is_entry[op] = true;
  for (const OpId op : operators) {
    int parent = is_entry[op] ? 0 : -1;
    for (const OpId before : graph.predecessors(op)) {
      const int n = node_of_[before];
      if (n >= 0) parent = parent < 0 ? n : common_dominator(parent, n);
    }
    if (parent < 0) continue;
    const Node& up = at(parent);
    const Node& far = at(up.jump);
    const bool even = up.depth - far.depth == far.depth - at(far.jump).depth;
    Node added;
    added.op = op;
    added.parent = parent;
    added.depth = up.depth + 1;
    added.jump = even ? far.jump : parent;
    node_of_[op] = size();
    nodes_.push_back(added);
  }
  number_depth_first();
}

void DominatorTree::number_depth_first() {
  // A node comes after its dominator: sizes from back to front, places from front to back.
  std::vector<int> subtree(nodes_.size(), 1);
  for (int n = size() - 1; n > 0; --n) {
    subtree[static_cast<std::size_t>(parent(n))] += subtree[static_cast<std::size_t>(n)];
  }
  std::vector<int> next(nodes_.size(), 1);  // place of a node's next child
  at(0).leave = size();
  for (int n = 1; n < size(); ++n) {
    int& place = next[static_cast<std::size_t>(parent(n))];
    at(n).enter = place;
    at(n).leave = place + subtree[static_cast<std::size_t>(n)];
    place = at(n).leave;
    next[static_cast<std::size_t>(n)] = at(n).enter + 1;
  }
}

int DominatorTree::common_dominator(int a, int b) const {
  if (at(a).depth < at(b).depth) std::swap(a, b);
  while (at(a).depth > at(b).depth) {
    a = at(at(a).jump).depth >= at(b).depth ? at(a).jump : at(a).parent;
  }
  while (a != b) {
    const bool jump = at(a).jump != at(b).jump;
    a = jump ? at(a).jump : at(a).parent;
    b = jump ? at(b).jump : at(b).parent;
  }
  return a;
}

std::vector<OpId> DominatorTree::dominated(int node) const {
  std::vector<OpId> inside;
  for (int n = node + 1; n < size(); ++n) {
    if (dominates(node, n)) inside.push_back(op(n));
  }
  return inside;
}

}  // namespace magis
