// What must run before what, beyond "made before it is read".
#include <algorithm>

#include "magis/graph/builder.h"

namespace magis {
namespace {

// The readers of one input since it was last written to.
struct Access {
  OpId last_writer;
  std::vector<OpId> readers;
};

bool draws_or_may_draw(const Operator& op) {
  return op.info->purity == Purity::random || op.info->purity == Purity::opaque;
}

std::vector<TensorId> written_tensors(const Graph& graph, const Operator& op) {
  std::vector<TensorId> written;
  for (int position : op.info->mutated) {
    if (static_cast<std::size_t>(position) >= op.args.size()) continue;
    for_each_value(op.args[static_cast<std::size_t>(position)], [&](ValueId id) {
      const TensorId tensor = graph.value(id).tensor;
      if (tensor.valid()) written.push_back(tensor);
    });
  }
  return written;
}

}  // namespace

void GraphBuilder::link_precedence() {
  IdMap<TensorId, Access> accesses(graph_.tensors_.size());
  std::vector<std::pair<OpId, OpId>> successions;  // predecessor, operator
  OpId last_random;
  std::vector<OpId> before;
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    const OpId op(i);
    before.clear();
    for (TensorId tensor : graph_.reads(op)) {
      before.push_back(graph_.tensor(tensor).producer);
      before.push_back(accesses[tensor].last_writer);
      accesses[tensor].readers.push_back(op);
    }
    for (TensorId tensor : written_tensors(graph_, graph_.op(op))) {
      Access& access = accesses[tensor];
      before.insert(before.end(), access.readers.begin(), access.readers.end());
      access = {.last_writer = op, .readers = {op}};
    }
    if (draws_or_may_draw(graph_.op(op))) before.push_back(std::exchange(last_random, op));
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (OpId predecessor : before) {
      if (!predecessor.valid() || predecessor == op) continue;
      graph_.predecessors_.push_back(predecessor);
      successions.emplace_back(predecessor, op);
    }
    graph_.predecessors_.end_row();
  }
  const auto grouped = Rows<std::pair<OpId, OpId>>::group(
      graph_.operators_.size(), successions,
      [](const auto& pair) { return static_cast<std::size_t>(pair.first.index); });
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    for (const auto& [predecessor, op] : grouped[i]) graph_.successors_.push_back(op);
    graph_.successors_.end_row();
  }
}

}  // namespace magis
