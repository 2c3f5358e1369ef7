// Orders that other compilers use, each from its published description: what ours are held against.
#pragma once

#include <string_view>
#include <vector>

#include "magis/schedule/scheduling_problem.h"

namespace magis {

// The reverse of a depth-first post-order over successors, from the sources: what a compiler gets
// without thinking of memory.
std::vector<NodeId> reverse_post_order(const SchedulingProblem& problem);
// TorchInductor's three memory reorderings (torch/_inductor/memory.py, torch 2.13). All list
// scheduling; ties go to program order.
//
// Least peak memory first: while something is ready that stays within the largest memory so far,
// the one of those that leaves the least live; else the one that needs the least while it runs.
std::vector<NodeId> inductor_lpmf_order(const SchedulingProblem& problem);
// First in, first out: whose predecessors have run the earliest.
std::vector<NodeId> inductor_bfs_order(const SchedulingProblem& problem);
// Depth first towards what a node needs, from the nodes that read and write the fewest bytes to
// those with the most.
std::vector<NodeId> inductor_dfs_order(const SchedulingProblem& problem);

struct PeerOrder {
  std::string_view name;
  std::vector<NodeId> order;
};
// Program order and the four above.
std::vector<PeerOrder> peer_orders(const SchedulingProblem& problem);

}  // namespace magis
