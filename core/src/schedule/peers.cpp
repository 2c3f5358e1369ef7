#include "magis/schedule/peers.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace magis {
namespace {

IdMap<NodeId, int> predecessor_counts(const SchedulingProblem& problem) {
  IdMap<NodeId, int> counts;
  for (std::size_t n = 0; n < problem.size(); ++n) {
    counts.push_back(static_cast<int>(problem.predecessors[n].size()));
  }
  return counts;
}

// List scheduling: `better(a, b)` says whether a ready node goes before another; `ran(node)` is
// told of each that runs.
template <class Better, class Ran>
std::vector<NodeId> list_schedule(const SchedulingProblem& problem, Better&& better, Ran&& ran) {
  IdMap<NodeId, int> missing = predecessor_counts(problem);
  std::vector<NodeId> ready;
  for (std::size_t n = 0; n < problem.size(); ++n) {
    if (missing[NodeId(n)] == 0) ready.emplace_back(n);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const auto best = std::ranges::min_element(ready, better);
    const NodeId node = *best;
    ready.erase(best);
    order.push_back(node);
    ran(node);
    for (const NodeId next : problem.successors[SchedulingProblem::row(node)]) {
      if (--missing[next] == 0) ready.push_back(next);
    }
  }
  return order;
}

// Appends what `root` leads to, itself last; `leads_to` gives a node's row.
class PostOrder {
 public:
  explicit PostOrder(const Rows<NodeId>& leads_to)
      : leads_to_(leads_to), seen_(leads_to.row_count(), 0) {}

  void visit(NodeId root) {
    if (std::exchange(seen_[root], 1) != 0) return;
    std::vector<std::pair<NodeId, std::size_t>> pending{{root, 0}};
    while (!pending.empty()) {
      auto& [node, next] = pending.back();
      const auto row = leads_to_[SchedulingProblem::row(node)];
      if (next == row.size()) {
        nodes_.push_back(node);
        pending.pop_back();
      } else if (const NodeId child = row[next++]; std::exchange(seen_[child], 1) == 0) {
        pending.emplace_back(child, 0);
      }
    }
  }
  std::vector<NodeId> take() { return std::move(nodes_); }

 private:
  const Rows<NodeId>& leads_to_;
  IdMap<NodeId, uint8_t> seen_;
  std::vector<NodeId> nodes_;
};

Bytes bytes_touched(const SchedulingProblem& problem, NodeId node) {
  const std::size_t row = SchedulingProblem::row(node);
  Bytes bytes = problem.results[row];
  for (const TensorId read : problem.reads[row]) bytes += problem.bytes[read];
  return bytes;
}

}  // namespace

std::vector<NodeId> reverse_post_order(const SchedulingProblem& problem) {
  PostOrder post_order(problem.successors);
  for (std::size_t n = problem.size(); n-- > 0;) {
    if (problem.predecessors[n].empty()) post_order.visit(NodeId(n));
  }
  std::vector<NodeId> order = post_order.take();
  std::ranges::reverse(order);
  return order;
}

std::vector<NodeId> inductor_lpmf_order(const SchedulingProblem& problem) {
  LiveBytesOfOrder bytes(problem);
  Bytes largest = 0;
  const auto priority = [&](NodeId node) {
    const Bytes during = bytes.during(node);
    const bool within = during <= largest;
    return std::tuple(!within, within ? bytes.change(node) : during, node);
  };
  return list_schedule(
      problem, [&](NodeId a, NodeId b) { return priority(a) < priority(b); },
      [&](NodeId node) { largest = std::max(largest, bytes.run(node)); });
}

std::vector<NodeId> inductor_bfs_order(const SchedulingProblem& problem) {
  int now = 0;
  IdMap<NodeId, std::vector<int>> waited(problem.size());  // when its predecessors ran
  return list_schedule(
      problem, [&](NodeId a, NodeId b) { return std::tie(waited[a], a) < std::tie(waited[b], b); },
      [&](NodeId node) {
        // In order of running, hence sorted.
        for (const NodeId next : problem.successors[SchedulingProblem::row(node)]) {
          waited[next].push_back(now);
        }
        ++now;
      });
}

std::vector<NodeId> inductor_dfs_order(const SchedulingProblem& problem) {
  std::vector<std::pair<Bytes, NodeId>> by_bytes;
  for (std::size_t n = 0; n < problem.size(); ++n) {
    by_bytes.emplace_back(bytes_touched(problem, NodeId(n)), NodeId(n));
  }
  std::ranges::sort(by_bytes);
  PostOrder post_order(problem.predecessors);
  for (const auto& [bytes, node] : by_bytes) post_order.visit(node);
  return post_order.take();
}

std::vector<PeerOrder> peer_orders(const SchedulingProblem& problem) {
  return {{"program order", program_order(problem)},
          {"reverse post-order", reverse_post_order(problem)},
          {"Inductor lpmf", inductor_lpmf_order(problem)},
          {"Inductor bfs", inductor_bfs_order(problem)},
          {"Inductor dfs", inductor_dfs_order(problem)}};
}

}  // namespace magis
