// Graphs as the schedulers see them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "magis/graph/graph.h"
#include "magis/schedule/program.h"
#include "magis/schedule/scheduling_problem.h"
#include "magis/simulate/profile.h"
#include "magis/simulate/simulate.h"
#include "magis/transform/rewriting.h"
#include "support/random_graph.h"

namespace magis::test {

struct Scheduled {
  explicit Scheduled(Graph of, const char* device = "cpu")
      : graph(std::move(of)),
        costs(make_cost_table(graph, device_profile(device))),
        problem(make_scheduling_problem(graph, costs.bytes, costs.scratch)) {}

  // Of the program that the order lowers to: shares no code with the schedulers' counting.
  Bytes simulated_peak(std::span<const NodeId> order) const {
    Decisions decisions = program_order(graph);
    decisions.order = operators_in_order(problem, order);
    return footprint(graph, lower(graph, decisions).value(), costs).transient_peak;
  }

  Graph graph;
  CostTable costs;
  SchedulingProblem problem;
};

// What a scheduler is told after a graph was rewritten. Every operator is a node of its own.
struct Edit {
  std::vector<int> rank;        // by node of the new graph: see order_by_rank
  std::vector<NodeId> changed;  // new nodes, and those that read something else than before
};
// `order` is one of the graph before.
inline Edit edit_of(const Rewritten& rewritten, std::span<const NodeId> order) {
  std::vector<int> position(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    position[SchedulingProblem::row(order[k])] = static_cast<int>(k);
  }
  Edit edit;
  for (const OpId before : rewritten.stands_for) {
    edit.rank.push_back(position[static_cast<std::size_t>(before.index)]);
  }
  for (const OpId op : rewritten.changed) edit.changed.emplace_back(op.index);
  return edit;
}

// Every kind of operator, sized at random up to `most` of them.
inline Scheduled random_scheduled(uint64_t seed, int op_count) {
  return Scheduled(make_random_graph(seed, op_count));
}

}  // namespace magis::test
