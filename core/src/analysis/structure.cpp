#include "magis/analysis/structure.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "magis/base/hash.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

class Hasher {
 public:
  explicit Hasher(const Graph& graph) : graph_(graph), hashes_(graph.op_count(), 0) {
    for (std::size_t o = 0; o < graph.op_count(); ++o) hashes_[OpId(o)] = alone(OpId(o));
  }

  void widen() {
    IdMap<OpId, uint64_t> next(graph_.op_count(), 0);
    for (std::size_t o = 0; o < graph_.op_count(); ++o) next[OpId(o)] = with_neighbours(OpId(o));
    hashes_ = std::move(next);
  }
  IdMap<OpId, uint64_t> take() && { return std::move(hashes_); }

  // How a value is read: its type, through which views, of which result.
  uint64_t reading(ValueId id) const {
    const Value& value = graph_.value(id);
    uint64_t hash = hash_text(to_text(value.type));
    if (value.kind == ValueKind::view) {
      const Call& view = graph_.view(value);
      hash = combine(hash, hash_text(view.info->name));
      for (const Arg& arg : view.args) hash = combine(hash, literal(arg));
      return combine(hash, reading(value.base));
    }
    if (value.kind == ValueKind::input) return combine(hash, 1);
    const auto& results = graph_.op(value.producer).results;
    return combine(hash,
                   static_cast<uint64_t>(std::ranges::find(results, id) - results.begin()) + 2);
  }

 private:
  static uint64_t literal(const Arg& arg) {
    struct Visitor {
      uint64_t operator()(None) const { return 1; }
      uint64_t operator()(ValueId) const { return 2; }  // see reading()
      uint64_t operator()(int64_t x) const { return static_cast<uint64_t>(x); }
      uint64_t operator()(double x) const { return std::bit_cast<uint64_t>(x); }
      uint64_t operator()(bool x) const { return x; }
      uint64_t operator()(const std::string& x) const { return hash_text(x); }
      uint64_t operator()(const Symbol& x) const { return hash_text(x.word); }
      uint64_t operator()(const Device& x) const { return hash_text(x.name); }
      uint64_t operator()(const PartLength& x) const {
        return combine(static_cast<uint64_t>(x.coefficient), static_cast<uint64_t>(x.value));
      }
      uint64_t operator()(const ArgList& items) const {
        uint64_t hash = items.size();
        for (const Arg& item : items) hash = combine(hash, literal(item));
        return hash;
      }
    };
    return combine(arg.value.index(), std::visit(Visitor{}, arg.value));
  }

  uint64_t alone(OpId id) const {
    const Operator& op = graph_.op(id);
    uint64_t hash = combine(hash_text(op.info->name), op.backward);
    for (const Arg& arg : op.args) hash = combine(hash, literal(arg));
    for (const auto& [name, arg] : op.kwargs) {
      hash = combine(combine(hash, hash_text(name)), literal(arg));
    }
    for (const ValueId result : op.results) {
      hash = combine(hash, hash_text(to_text(graph_.value(result).type)));
    }
    for_each_value(op, [&](ValueId value) { hash = combine(hash, reading(value)); });
    return hash;
  }

  // Operands in order, consumers as a set.
  uint64_t with_neighbours(OpId id) const {
    uint64_t hash = hashes_[id];
    for (const TensorId tensor : graph_.reads(id)) {
      const Tensor& operand = graph_.tensor(tensor);
      hash = combine(hash, operand.is_input ? 1 : hashes_[operand.producer]);
    }
    for (const TensorId made : graph_.makes(id)) {
      uint64_t consumers = graph_.tensor(made).is_output ? 1 : 0;
      for (const EdgeId use : graph_.uses(made)) consumers += mix64(hashes_[graph_.edge_op(use)]);
      hash = combine(hash, consumers);
    }
    return hash;
  }

  const Graph& graph_;
  IdMap<OpId, uint64_t> hashes_;
};

}  // namespace

IdMap<OpId, uint64_t> structure_hashes(const Graph& graph, int radius) {
  Hasher hasher(graph);
  for (int i = 0; i < radius; ++i) hasher.widen();
  return std::move(hasher).take();
}

std::vector<std::vector<EdgeId>> equal_edges(const Graph& graph, int radius) {
  const IdMap<OpId, uint64_t> hashes = structure_hashes(graph, radius);
  std::unordered_map<uint64_t, std::size_t> group_of;
  std::vector<std::vector<EdgeId>> groups;
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    const EdgeId edge(e);
    const TensorId tensor = graph.edge_tensor(edge);
    const OpId consumer = graph.edge_op(edge);
    if (graph.tensor(tensor).is_input) continue;
    const OpId producer = graph.tensor(tensor).producer;
    const auto made = graph.makes(producer);
    const auto result = static_cast<uint64_t>(std::ranges::find(made, tensor) - made.begin());
    const auto operand = static_cast<uint64_t>(edge.index - graph.first_edge(consumer).index);
    const uint64_t key =
        combine(combine(combine(hashes[producer], hashes[consumer]), result), operand);
    const auto [entry, fresh] = group_of.try_emplace(key, groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(edge);
  }
  return groups;
}

}  // namespace magis
