#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/schedule/scheduler.h"

namespace magis {
namespace {

std::vector<NodeId> sorted_by_rank(const SchedulingProblem& problem, std::span<const int> rank) {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<int> place(rank.empty() ? 1 : at(std::ranges::max(rank)) + 2, 0);
  for (const int r : rank) ++place[at(r) + 1];
  for (std::size_t r = 1; r < place.size(); ++r) place[r] += place[r - 1];
  std::vector<NodeId> order(problem.size());
  for (std::size_t n = 0; n < problem.size(); ++n) order[at(place[at(rank[n])]++)] = NodeId(n);
  return order;
}

std::vector<NodeId> least_ready_first(const SchedulingProblem& problem, std::span<const int> rank) {
  using Entry = std::pair<int, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  IdMap<NodeId, int> missing;
  for (std::size_t n = 0; n < problem.size(); ++n) {
    missing.push_back(static_cast<int>(problem.predecessors[n].size()));
    if (missing[NodeId(n)] == 0) ready.emplace(rank[n], NodeId(n));
  }
  std::vector<NodeId> order;
  order.reserve(problem.size());
  while (!ready.empty()) {
    const NodeId node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (const NodeId next : problem.successors[SchedulingProblem::row(node)]) {
      if (--missing[next] == 0) ready.emplace(rank[SchedulingProblem::row(next)], next);
    }
  }
  return order;
}

}  // namespace

std::vector<NodeId> order_by_rank(const SchedulingProblem& problem, std::span<const int> rank) {
  MAGIS_CHECK(rank.size() == problem.size(), rank.size()
                                                 << " ranks for " << problem.size() << " nodes");
  std::vector<NodeId> order = sorted_by_rank(problem, rank);
  return is_valid_order(problem, order) ? order : least_ready_first(problem, rank);
}

}  // namespace magis
