#include "magis/schedule/decisions.h"

#include <algorithm>

#include "magis/graph/builder.h"

namespace magis {
namespace {

// Inputs that some operator writes to: by the time of a second run they may hold new contents.
IdMap<TensorId, uint8_t> written_inputs(const Graph& graph) {
  IdMap<TensorId, uint8_t> written(graph.tensors().size(), 0);
  for (const Operator& op : graph.operators()) {
    for (int position : op.info->mutated) {
      for_each_value(op.args[static_cast<std::size_t>(position)], [&](ValueId id) {
        const TensorId tensor = graph.value(id).tensor;
        // A loop's results are read after it, by when they do not change any more.
        if (tensor.valid() && graph.tensor(tensor).is_input) written[tensor] = 1;
      });
    }
  }
  return written;
}

bool may_run_again(const Graph& graph, OpId op, const IdMap<TensorId, uint8_t>& written) {
  if (graph.op(op).info->purity != Purity::pure) return false;
  return std::ranges::none_of(graph.reads(op), [&](TensorId read) { return written[read] != 0; });
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
  return may_run_again(graph, op, written_inputs(graph));
}

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

IdMap<OpId, uint8_t> recomputable_operators(const Graph& graph) {
  const IdMap<TensorId, uint8_t> written = written_inputs(graph);
  IdMap<OpId, uint8_t> result;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    result.push_back(may_run_again(graph, OpId(i), written) ? 1 : 0);
  }
  return result;
}

}  // namespace magis
