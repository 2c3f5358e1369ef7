// Maximum flow and minimum cut (Dinic's algorithm).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace magis {

class FlowNetwork {
 public:
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;

  explicit FlowNetwork(int node_count) : nodes_(static_cast<std::size_t>(node_count)) {}
  void add_edge(int from, int to, int64_t capacity);
  // The nodes on the source's side of a minimum cut: the fewest of all minimum cuts. The sum of
  // the bounded capacities is less than kUnbounded.
  // `stop` is asked now and then: if it says so there is none, and nothing is returned.
  std::optional<std::vector<bool>> source_side(int source, int sink,
                                               const std::function<bool()>& stop = {});

 private:
  struct Edge {
    int from, to;
    int64_t capacity;  // what is left of it
  };
  struct Node {
    int level = -1;  // distance from the source in the residual network
    int first = 0;   // of its edges in by_node_
    int next = 0;    // the first that may still carry flow
  };

  void index_edges();
  bool find_levels(int source, int sink);
  void augment(int source, int sink, const std::function<bool()>& stop);
  Node& node(int n) { return nodes_[static_cast<std::size_t>(n)]; }
  Edge& edge(int e) { return edges_[static_cast<std::size_t>(e)]; }

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // an edge and its reverse stand next to each other
  std::vector<int> by_node_;
};

}  // namespace magis
