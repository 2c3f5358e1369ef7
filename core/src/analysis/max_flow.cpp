#include "analysis/max_flow.h"

#include <algorithm>

namespace magis {

void FlowNetwork::add_edge(int from, int to, int64_t capacity) {
  edges_.push_back({from, to, capacity});
  edges_.push_back({to, from, 0});
}

std::optional<std::vector<bool>> FlowNetwork::source_side(int source, int sink,
                                                          const std::function<bool()>& stop) {
  index_edges();
  while (find_levels(source, sink)) {
    augment(source, sink, stop);
    if (stop && stop()) return std::nullopt;
  }
  std::vector<bool> side(nodes_.size() - 1);
  for (std::size_t n = 0; n < side.size(); ++n) side[n] = nodes_[n].level >= 0;
  return side;
}

void FlowNetwork::index_edges() {
  for (const Edge& e : edges_) ++node(e.from).first;
  int total = 0;
  for (Node& n : nodes_) {
    const int count = n.first;
    n.first = total;
    total += count;
    n.next = n.first;
  }
  nodes_.push_back({.first = total});  // ends the last node's edges
  by_node_.resize(edges_.size());
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    by_node_[static_cast<std::size_t>(node(edges_[e].from).next++)] = static_cast<int>(e);
  }
}

bool FlowNetwork::find_levels(int source, int sink) {
  for (Node& n : nodes_) {
    n.level = -1;
    n.next = n.first;
  }
  std::vector<int> pending{source};
  node(source).level = 0;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const int n = pending[i];
    for (int k = node(n).first; k < node(n + 1).first; ++k) {
      const Edge& e = edge(by_node_[static_cast<std::size_t>(k)]);
      if (e.capacity == 0 || node(e.to).level >= 0) continue;
      node(e.to).level = node(n).level + 1;
      pending.push_back(e.to);
    }
  }
  return node(sink).level >= 0;
}

// Pushes flow along shortest paths until none is left. Iterative: paths are as long as the graph is
// deep.
void FlowNetwork::augment(int source, int sink, const std::function<bool()>& stop) {
  std::vector<int> path;  // edges
  int n = source;
  while (true) {
    if (n == sink) {
      if (stop && stop()) return;
      int64_t flow = kUnbounded;
      for (const int e : path) flow = std::min(flow, edge(e).capacity);
      std::size_t keep = path.size();
      for (std::size_t i = path.size(); i-- > 0;) {
        edge(path[i]).capacity -= flow;
        edge(path[i] ^ 1).capacity += flow;
        if (edge(path[i]).capacity == 0) keep = i;
      }
      n = edge(path[keep]).from;
      path.resize(keep);
      continue;
    }
    int& next = node(n).next;
    for (; next < node(n + 1).first; ++next) {
      const Edge& e = edge(by_node_[static_cast<std::size_t>(next)]);
      if (e.capacity > 0 && node(e.to).level == node(n).level + 1) break;
    }
    if (next < node(n + 1).first) {
      path.push_back(by_node_[static_cast<std::size_t>(next)]);
      n = edge(path.back()).to;
    } else if (n == source) {
      return;
    } else {  // a dead end
      n = edge(path.back()).from;
      path.pop_back();
      ++node(n).next;
    }
  }
}

}  // namespace magis
