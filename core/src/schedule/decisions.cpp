#include "magis/schedule/decisions.h"

namespace magis {
Decisions program_order(const Graph& graph) {
  Decisions decisions;
  decisions.order.reserve(graph.op_count());
  for (std::size_t i = 0; i < graph.op_count(); ++i) decisions.order.emplace_back(i);
  decisions.modes = IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep);
  return decisions;
}

bool recomputable(const Graph& graph, OpId op) { return graph.op(op).info->purity == Purity::pure; }

bool may_copy_for(const Graph& graph, OpId producer, OpId reader) {
  const LoopId bounded = graph.bounded_loop(reader);
  const bool ends = bounded.valid() && graph.loop(bounded).end == reader;
  return !ends && graph.loop_of(producer) == graph.loop_of(reader);
}

bool swappable(const Graph& graph, TensorId tensor) {
  const Tensor& info = graph.tensor(tensor);
  if (info.is_input || info.is_output) return false;
  const Type& type = graph.value(info.value).type;
  return is_dense(type) && type.offset == 0 && type.storage > 0 &&
         type.storage == minimal_storage(type);
}

bool may_bound_gap(const Graph& graph, OpId op, OpId reader) {
  return may_copy_for(graph, reader, op);
}

}  // namespace magis
