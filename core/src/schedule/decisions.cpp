#include "magis/schedule/decisions.h"

#include <algorithm>

#include "magis/graph/op_table.h"

namespace magis {
namespace {

bool writes_to(const Graph& graph, const Operator& op, TensorId tensor) {
  return std::ranges::any_of(op.info->mutated, [&](int position) {
    const auto* value = std::get_if<ValueId>(&op.args[static_cast<std::size_t>(position)].value);
    return value != nullptr && graph.value(*value).tensor == tensor;
  });
}

}  // namespace

Decisions program_order(const Graph& graph) {
  Decisions decisions;
  decisions.order.reserve(graph.op_count());
  for (std::size_t i = 0; i < graph.op_count(); ++i) decisions.order.emplace_back(i);
  decisions.modes = IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep);
  return decisions;
}

bool recomputable(const Graph& graph, OpId op) {
  if (graph.op(op).info->purity != Purity::pure) return false;
  // An input that some operator writes to may hold its new contents by the time of a second run.
  return std::ranges::none_of(graph.reads(op), [&](TensorId tensor) {
    if (!graph.tensor(tensor).is_input) return false;
    return std::ranges::any_of(graph.uses(tensor), [&](EdgeId edge) {
      const Operator& reader = graph.op(graph.edge_op(edge));
      return reader.info->purity == Purity::mutating && writes_to(graph, reader, tensor);
    });
  });
}

}  // namespace magis
