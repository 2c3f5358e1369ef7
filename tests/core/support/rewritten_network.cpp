#include "support/rewritten_network.h"

#include <string>

namespace magis::test {
namespace {

std::vector<std::string> names_read(const Graph& graph, NodeId node) {
  std::vector<std::string> names;
  for (const TensorId tensor : graph.reads(OpId(node.index))) {
    names.push_back(graph.value(graph.tensor(tensor).value).name);
  }
  return names;
}

}  // namespace

Edit edit_between(const NetworkStep& before, std::span<const NodeId> order,
                  const NetworkStep& after) {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<int> stood(after.network.place.size(), -1);  // by item
  std::vector<NodeId> was(stood.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const int id = before.ids[SchedulingProblem::row(order[k])];
    stood[at(id)] = static_cast<int>(k);
    was[at(id)] = order[k];
  }
  Edit edit;
  for (std::size_t n = 0; n < after.ids.size(); ++n) {
    const int id = after.ids[n];
    const bool is_new = stood[at(id)] < 0;
    edit.rank.push_back(stood[at(is_new ? after.network.item(id).instead_of : id)]);
    if (is_new ||
        names_read(before.step.graph, was[at(id)]) != names_read(after.step.graph, NodeId(n))) {
      edit.changed.emplace_back(n);
    }
  }
  return edit;
}

}  // namespace magis::test
