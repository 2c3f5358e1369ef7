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
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "magis/graph/axes.h"
#include "magis/simulate/simulate.h"

namespace magis {
namespace {

// Up to 64 tensors, a bit each.
using TensorSet = uint64_t;
constexpr std::size_t kBatch = 64;

// What the members of a set take together, an eighth of the set at a time.
class BytesOf {
 public:
  explicit BytesOf(std::span<const Bytes> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::array<Bytes, 256>& table = tables_[i / 8];
      const std::size_t bit = std::size_t{1} << (i % 8);
      for (std::size_t set = bit; set < table.size(); set = (set + 1) | bit) table[set] += bytes[i];
    }
  }
  Bytes operator()(TensorSet set) const {
    Bytes sum = 0;
    for (std::size_t eighth = 0; set != 0; set >>= 8) sum += tables_[eighth++][set & 255];
    return sum;
  }

 private:
  std::array<std::array<Bytes, 256>, kBatch / 8> tables_{};
};

class WorkingSets {
 public:
  WorkingSets(const Graph& graph, const CostTable& costs, bool swap)
      : graph_(graph),
        costs_(costs),
        swap_(swap),
        across_(graph.op_count(), 0),
        survives_(graph.edge_count(), 0) {
    std::vector<TensorId> survivors;
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
      if (survives(TensorId(t))) survivors.push_back(TensorId(t));
    }
    for (std::size_t first = 0; first < survivors.size(); first += kBatch) {
      add(std::span(survivors).subspan(first, std::min(kBatch, survivors.size() - first)));
    }
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

  // It is an output, or cannot be made again.
  bool survives(TensorId id) const {
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.is_input || (swap_ && swappable(graph_, id))) return false;
    return tensor.is_output || !recomputable(graph_, tensor.producer);
  }

  // Records where the tensors of the batch are held for certain.
  void add(std::span<const TensorId> batch) {
    std::vector<Bytes> bytes;
    for (const TensorId id : batch) bytes.push_back(costs_.bytes[id]);
    IdMap<OpId, TensorSet> held = held_while_running(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const TensorSet bit = TensorSet{1} << i;
      for (const EdgeId use : graph_.uses(batch[i])) {  // counted as an operand there
        const OpId reader = graph_.edge_op(use);
        survives_[use] = (held[reader] & bit) != 0;
        held[reader] &= ~bit;
      }
    }
    const BytesOf bytes_of(bytes);
    for (std::size_t i = 0; i < held.size(); ++i) across_[OpId(i)] += bytes_of(held[OpId(i)]);
  }

  // By operator, which of them are there: made by what comes before it in every order, and outputs
  // or read by what comes after it in every order.
  IdMap<OpId, TensorSet> held_while_running(std::span<const TensorId> batch) const {
    const std::size_t count = graph_.op_count();
    IdMap<OpId, TensorSet> made(count, 0);
    IdMap<OpId, TensorSet> read(count, 0);
    TensorSet outputs = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const TensorSet bit = TensorSet{1} << i;
      made[graph_.tensor(batch[i]).producer] |= bit;
      if (graph_.tensor(batch[i]).is_output) outputs |= bit;
      for (const EdgeId use : graph_.uses(batch[i])) read[graph_.edge_op(use)] |= bit;
    }
    IdMap<OpId, TensorSet> before(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      for (const OpId p : graph_.predecessors(OpId(i))) before[OpId(i)] |= before[p] | made[p];
    }
    IdMap<OpId, TensorSet> after(count, 0);
    for (std::size_t i = count; i-- > 0;) {
      for (const OpId s : graph_.successors(OpId(i))) after[OpId(i)] |= after[s] | read[s];
    }
    for (std::size_t i = 0; i < count; ++i) before[OpId(i)] &= outputs | after[OpId(i)];
    return before;
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
