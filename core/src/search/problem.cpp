#include "search/problem.h"

#include <cmath>

#include "magis/schedule/decisions.h"
#include "magis/schedule/host_pool.h"

namespace magis {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

int64_t iterations_around(const Graph& graph, OpId op) {
  int64_t iterations = 1;
  for (LoopId id = graph.loop_of(op); id.valid(); id = graph.loop(id).parent) {
    iterations *= graph.loop(id).iterations();
  }
  return iterations;
}

}  // namespace

Picoseconds to_picoseconds(Seconds seconds) {
  return static_cast<Picoseconds>(std::llround(seconds * kPicosecondsPerSecond));
}

Seconds to_seconds(Picoseconds time) { return static_cast<Seconds>(time) / kPicosecondsPerSecond; }

Problem::Problem(const Graph& source, const CostTable& table, bool recompute)
    : graph(&source), costs(&table) {
  for (std::size_t t = 0; t < source.tensors().size(); ++t) {
    const TensorId id(t);
    const Tensor& tensor = source.tensor(id);
    producer.push_back(tensor.is_input ? OpId() : tensor.producer);
    bytes.push_back(tensor.is_input ? 0 : table.bytes[id]);
    copy_time.push_back(to_picoseconds(table.copy_seconds[id]));
    copy_wait.push_back(table.copies_overlap || tensor.is_input
                            ? 0
                            : copy_time[id] * iterations_around(source, tensor.producer));
    host_bytes.push_back(round_up_to_slot(tensor.bytes));
    output.push_back(tensor.is_output && !tensor.is_input);
    managed.push_back(!tensor.is_input && !tensor.is_output);
    if (managed[id]) {
      for (const EdgeId edge : source.uses(id)) uses.push_back(edge);
    }
    uses.end_row();
  }
  for (std::size_t o = 0; o < source.op_count(); ++o) {
    const OpId op(o);
    EdgeId edge = source.first_edge(op);
    for (const TensorId tensor : source.reads(op)) {
      edge_tensor.push_back(tensor);
      edge_op.push_back(op);
      if (managed[tensor]) operands.push_back({edge, tensor});
      ++edge.index;
    }
    operands.end_row();
    recomputable.push_back(magis::recomputable(source, op));
    for (const OpId writer : source.overwriters(op)) overwriters.push_back(writer);
    overwriters.end_row();
    for (const Graph::InPlaceChoice& choice : source.in_place_choices(op)) {
      const TensorId tensor = source.edge_tensor(choice.edge);
      if (managed[tensor]) overwritable.push_back({choice.edge, tensor});
    }
    overwritable.end_row();
    for (const TensorId made : source.makes(op)) results.push_back(made);
    results.end_row();
    scratch.push_back(table.scratch[op]);
    time.push_back(to_picoseconds(table.seconds[op]));
  }
  for (std::size_t e = 0; e < edge_tensor.size(); ++e) {
    const TensorId tensor = edge_tensor[EdgeId(e)];
    const OpId reader = edge_op[EdgeId(e)];
    droppable.push_back(recompute && managed[tensor] && recomputable[producer[tensor]] &&
                        may_copy_for(source, producer[tensor], reader));
    swappable.push_back(managed[tensor] && magis::swappable(source, tensor) &&
                        may_copy_for(source, producer[tensor], reader));
  }
  for (std::size_t o = 0; o < source.op_count(); ++o) {
    const bool fixed = source.bounded_loop(OpId(o)).valid();
    body.push_back(fixed ? -2 - static_cast<int32_t>(o) : source.loop_of(OpId(o)).index);
  }
}

}  // namespace magis
