// Which labellings are worth growing, and the flow graph of each.
#include <algorithm>
#include <utility>

#include "magis/analysis/fission_tree.h"

namespace magis {
namespace {

Bytes hot_bytes(const Graph& graph, OpId op, const Hotspots& hotspots) {
  Bytes total = 0;
  for (const TensorId made : graph.makes(op)) total += hotspots[made];
  return total;
}

// Whether an operator depends, over any path, on an input that comes with the batch.
IdMap<OpId, bool> depends_on_batch(const Graph& graph) {
  IdMap<TensorId, bool> batch(graph.tensors().size(), false);
  for (const Input& input : graph.inputs()) {
    const TensorId tensor = graph.value(input.value).tensor;
    if (input.kind == InputKind::batch && tensor.valid()) batch[tensor] = true;
  }
  IdMap<OpId, bool> depends(graph.op_count(), false);
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const OpId op(o);
    depends[op] = std::ranges::any_of(graph.reads(op), [&](TensorId t) { return batch[t]; });
    for (const TensorId made : graph.makes(op)) batch[made] = depends[op];
  }
  return depends;
}

std::vector<OpId> readers_along(const AxisGraph& axes, const Labelling& labelling, TensorId input) {
  std::vector<OpId> readers;
  for (const int32_t l : axes.links_of_input(input)) {
    const AxisLink& link = axes.link(l);
    const Label label = labelling.labels[link.consumer];
    if (label.valid() && label.axis == link.consumer_axis) readers.push_back(link.consumer);
  }
  return readers;
}

}  // namespace

std::vector<Labelling> find_labellings(const AxisGraph& axes, const Hotspots& hotspots, int limit) {
  const Graph& graph = axes.graph();
  std::vector<Labelling> found;
  // Axes that some labelling walks, and in steps of one element; bits, an operator has few axes.
  IdMap<OpId, uint64_t> single(graph.op_count(), 0), walked(graph.op_count(), 0);
  const auto bit = [](int axis) { return uint64_t{1} << (axis & 63); };
  const auto keep = [&](Labelling labelling) {
    Bytes heat = 0;
    for (const OpId op : labelling.operators) {
      const Label label = labelling.labels[op];
      walked[op] |= bit(label.axis);
      if (label.step == 1) single[op] |= bit(label.axis);
      heat += hot_bytes(graph, op, hotspots);
    }
    if (heat > 0 && labelling.length > 1) found.push_back(std::move(labelling));
  };
  const auto is_full = [&] { return static_cast<int>(found.size()) >= limit; };

  for (const Input& input : graph.inputs()) {
    const TensorId tensor = graph.value(input.value).tensor;
    if (input.kind != InputKind::batch || !tensor.valid()) continue;
    const auto rank = static_cast<int>(graph.value(input.value).type.shape.size());
    for (int dim = 0; dim < rank && !is_full(); ++dim) {
      bool fresh = false;
      for (const int32_t l : axes.links_of_input(tensor)) {
        const AxisLink& link = axes.link(l);
        fresh |= link.dim == dim && (walked[link.consumer] & bit(link.consumer_axis)) == 0;
      }
      if (fresh) keep(grow_from_input(axes, tensor, dim));
    }
  }

  std::vector<std::pair<Bytes, OpId>> hot;
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const Bytes bytes = hot_bytes(graph, OpId(o), hotspots);
    if (bytes > 0 && axes.signature(OpId(o)) != nullptr) hot.emplace_back(-bytes, OpId(o));
  }
  std::ranges::sort(hot);
  for (const auto& [bytes, op] : hot) {
    const auto count = static_cast<int>(axes.signature(op)->axes.size());
    for (int axis = 0; axis < count && !is_full(); ++axis) {
      const auto length = axes.length_along(op, {axis, 1});
      if (length.value_or(0) > 1 && (single[op] & bit(axis)) == 0) keep(grow(axes, op, axis));
    }
  }
  return found;
}

DominatorTree dominator_tree(const AxisGraph& axes, const Labelling& labelling,
                             const Hotspots& hotspots) {
  const Graph& graph = axes.graph();
  std::optional<DominatorTree> best;
  std::pair<Bytes, int> best_reach{-1, 0};
  for (const Input& input : graph.inputs()) {
    const TensorId tensor = graph.value(input.value).tensor;
    if (input.kind != InputKind::batch || !tensor.valid()) continue;
    const std::vector<OpId> entries = readers_along(axes, labelling, tensor);
    if (entries.empty()) continue;
    DominatorTree tree(graph, labelling.operators, entries);
    Bytes heat = 0;
    for (int n = 1; n < tree.size(); ++n) heat += hot_bytes(graph, tree.op(n), hotspots);
    if (const std::pair reach(heat, tree.size()); reach > best_reach) {
      best_reach = reach;
      best.emplace(std::move(tree));
    }
  }
  if (best) return *std::move(best);

  const IdMap<OpId, bool> depends = depends_on_batch(graph);
  std::vector<OpId> sources, batch_sources;
  for (const OpId op : labelling.operators) {
    const auto labelled = [&](OpId before) { return labelling.contains(before); };
    if (std::ranges::any_of(graph.predecessors(op), labelled)) continue;
    sources.push_back(op);
    if (depends[op]) batch_sources.push_back(op);
  }
  return DominatorTree(graph, labelling.operators, batch_sources.empty() ? sources : batch_sources);
}

DominatorScores score_dominators(const AxisGraph& axes, const DominatorTree& tree,
                                 const Hotspots& hotspots) {
  const Graph& graph = axes.graph();
  const auto size = static_cast<std::size_t>(tree.size());
  DominatorScores scores{std::vector<Bytes>(size, 0), std::vector<Bytes>(size, 0)};
  // A tensor is an input of what v dominates for each v that strictly dominates a reader but not
  // the producer. If the root reaches the producer, that is the producer itself at most. Otherwise
  // these are all nodes on the readers' ways to the root: differences along the tree, summed below.
  std::vector<Bytes> from_outside(size, 0);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensor(TensorId(t));
    if (tensor.is_input || hotspots[TensorId(t)] > 0) continue;
    const int producer = tree.node(tensor.producer);
    std::vector<int> readers;
    for (const EdgeId use : graph.uses(TensorId(t))) {
      const int reader = tree.node(graph.edge_op(use));
      if (reader > 0) readers.push_back(reader);
    }
    if (readers.empty()) continue;
    if (producer >= 0) {
      const auto is_dominated = [&](int r) { return tree.dominates(producer, r); };
      if (std::ranges::any_of(readers, is_dominated)) {
        scores.inputs[static_cast<std::size_t>(producer)] += tensor.bytes;
      }
      continue;
    }
    for (int& reader : readers) reader = tree.parent(reader);
    std::ranges::sort(readers, {}, [&](int n) { return tree.depth_first(n); });
    for (std::size_t r = 0; r < readers.size(); ++r) {
      from_outside[static_cast<std::size_t>(readers[r])] += tensor.bytes;
      if (r == 0) continue;
      const int shared = tree.common_dominator(readers[r - 1], readers[r]);
      from_outside[static_cast<std::size_t>(shared)] -= tensor.bytes;
    }
  }
  for (int n = tree.size() - 1; n > 0; --n) {
    const auto up = static_cast<std::size_t>(tree.parent(n));
    const auto node = static_cast<std::size_t>(n);
    scores.heat[up] += scores.heat[node] + hot_bytes(graph, tree.op(n), hotspots);
    from_outside[up] += from_outside[node];
  }
  for (std::size_t n = 0; n < size; ++n) scores.inputs[n] += from_outside[n];
  return scores;
}

}  // namespace magis
