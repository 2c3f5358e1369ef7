// What a scheduler is told after a network was rewritten.
#pragma once

#include <span>
#include <vector>

#include "support/matrix_network.h"
#include "support/network_rewrites.h"
#include "support/scheduling_support.h"

namespace magis::test {

// A network with the graph that it makes.
struct NetworkStep {
  explicit NetworkStep(MatrixNetwork of)
      : network(std::move(of)), step(to_graph(network)), ids(item_ids(step.graph)) {}

  MatrixNetwork network;
  Scheduled step;
  std::vector<int> ids;  // of the items, by node
};

struct Edit {
  std::vector<int> rank;        // by node of the new graph: see order_by_rank
  std::vector<NodeId> changed;  // new nodes, and those that read something else than before
};
// `order` is one of `before`; `after` is a rewrite of it.
Edit edit_between(const NetworkStep& before, std::span<const NodeId> order,
                  const NetworkStep& after);

}  // namespace magis::test
