// A bound on the peak of every plan that runs whole operators.
//
// Look at the moment when operator v runs for the first time (its own run, not a copy's). Held
// then, each in a storage of its own:
//   1. a copy of every distinct tensor that v reads and that is not an input, and v's results, and
//   v's scratch, as far as it is certain: measured it may be more than some runs take, if the op
//   table's formula says less, or if the operator is unknown;
//      if v runs in place, one operand and the first result share a storage, so the largest operand
//      that may be overwritten is counted once;
//   2. every output made by an ancestor of v: own runs respect precedence, and an output is held
//   once made;
//   3. every tensor t that can neither be recomputed nor swapped, made by an ancestor of v and read
//   by a descendant of v: t is made once,
//      before v, and that one storage is read by the descendant's own run, after v.
// Sets 2 and 3 are counted where 1 does not hold them already; what they hold cannot be overwritten
// by v either. At the end, all outputs are held. The largest of these sums bounds the peak from
// below.
#include <algorithm>
#include <vector>

#include "magis/graph/axes.h"
#include "magis/simulate/simulate.h"

namespace magis {
namespace {

using OpSet = IdMap<OpId, char>;

OpSet descendants(const Graph& graph, OpId from) {
  OpSet below(graph.op_count(), 0);
  for (std::size_t i = static_cast<std::size_t>(from.index) + 1; i < graph.op_count(); ++i) {
    const auto before = graph.predecessors(OpId(i));
    below[OpId(i)] =
        std::ranges::any_of(before, [&](OpId p) { return p == from || below[p] != 0; });
  }
  return below;
}

OpSet ancestors_of_readers(const Graph& graph, TensorId tensor) {
  OpSet reader(graph.op_count(), 0);
  for (EdgeId use : graph.uses(tensor)) reader[graph.edge_op(use)] = 1;
  OpSet above(graph.op_count(), 0);
  for (std::size_t i = graph.op_count(); i-- > 0;) {
    const auto after = graph.successors(OpId(i));
    above[OpId(i)] =
        std::ranges::any_of(after, [&](OpId s) { return reader[s] != 0 || above[s] != 0; });
  }
  return above;
}

class WorkingSets {
 public:
  WorkingSets(const Graph& graph, const CostTable& costs, bool swap)
      : graph_(graph),
        costs_(costs),
        swap_(swap),
        across_(graph.op_count(), 0),
        survives_(graph.edge_count(), 0) {
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) add_survivor(TensorId(t));
  }

  // Bytes that every plan holds while `op` runs for the first time.
  Bytes of(OpId op) const {
    Bytes bytes = across_[op] + certain_scratch(op);
    for (TensorId read : graph_.reads(op)) bytes += costs_.bytes[read];
    for (TensorId made : graph_.makes(op)) bytes += costs_.bytes[made];
    Bytes saved = 0;
    for (const Graph::InPlaceChoice& choice : graph_.in_place_choices(op)) {
      if (survives_[choice.edge]) continue;
      saved = std::max(saved, costs_.bytes[graph_.edge_tensor(choice.edge)]);
    }
    return bytes - saved;
  }

 private:
  Bytes certain_scratch(OpId op) const {
    const OpInfo& info = *graph_.op(op).info;
    if (info.purity == Purity::opaque) return 0;
    const Bytes counted = costs_.scratch[op];
    return info.scratch == nullptr ? counted
                                   : std::min(counted, info.scratch(graph_, graph_.op(op)));
  }

  // Records where `id` is held for certain, if it is an output or cannot be recomputed.
  void add_survivor(TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.is_input) return;
    if (!tensor.is_output && recomputable(graph_, tensor.producer)) return;
    if (swap_ && swappable(graph_, id)) return;
    OpSet held = descendants(graph_, tensor.producer);
    if (!tensor.is_output) {
      const OpSet needed_later = ancestors_of_readers(graph_, id);
      for (std::size_t i = 0; i < graph_.op_count(); ++i) held[OpId(i)] &= needed_later[OpId(i)];
    }
    for (EdgeId use : graph_.uses(id)) {  // counted as an operand there
      const OpId reader = graph_.edge_op(use);
      survives_[use] = held[reader];
      held[reader] = 0;
    }
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
      if (held[OpId(i)]) across_[OpId(i)] += costs_.bytes[id];
    }
  }

  const Graph& graph_;
  const CostTable& costs_;
  const bool swap_;
  IdMap<OpId, Bytes> across_;     // survivors that the operator neither reads nor makes
  IdMap<EdgeId, char> survives_;  // the operand is held after this use too
};

bool may_split(const Graph& graph, OpId op) {
  if (graph.op(op).info->purity != Purity::pure) return false;
  const std::optional<AxisSignature> signature = axis_signature(graph, op);
  return signature && std::ranges::any_of(signature->axes, [](const Axis& axis) {
           return axis.splittable && axis.length > 1;
         });
}

}  // namespace

LowerBound lower_bound(const Graph& graph, const CostTable& costs, const BoundedPlans& plans) {
  LowerBound bound;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (graph.tensor(TensorId(t)).is_output) bound.bytes += costs.bytes[TensorId(t)];
  }
  const WorkingSets working_sets(graph, costs, plans.swap);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (plans.fission && may_split(graph, OpId(i))) continue;
    const Bytes held = working_sets.of(OpId(i));
    if (held > bound.bytes) bound = {held, OpId(i)};
  }
  bound.bytes += costs.persistent;
  return bound;
}

}  // namespace magis
