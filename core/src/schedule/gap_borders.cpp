#include "schedule/gap_borders.h"

#include <algorithm>
#include <tuple>

namespace magis {
namespace {

class Positions {
 public:
  Positions(const Graph& graph, const std::vector<OpId>& order)
      : graph_(graph), position_(graph.op_count(), 0) {
    for (std::size_t k = 0; k < order.size(); ++k) position_[order[k]] = static_cast<int>(k);
  }

  int of(OpId op) const { return position_[op]; }

  // Of the use of the same tensor before this one, or of the operator that makes it.
  int before(EdgeId use) const {
    const TensorId tensor = graph_.edge_tensor(use);
    int last = of(graph_.tensor(tensor).producer);
    for (const EdgeId other : graph_.uses(tensor)) {
      const int position = of(graph_.edge_op(other));
      if (position < of(graph_.edge_op(use))) last = std::max(last, position);
    }
    return last;
  }

 private:
  const Graph& graph_;
  IdMap<OpId, int> position_;
};

bool is_possible(const Graph& graph, const Positions& positions, const Gap& gap) {
  const TensorId tensor = graph.edge_tensor(gap.use);
  const OpId reader = graph.edge_op(gap.use);
  if (!swappable(graph, tensor)) return false;
  if (!may_copy_for(graph, graph.tensor(tensor).producer, reader)) return false;
  if (!may_bound_gap(graph, gap.release, reader)) return false;
  if (!may_bound_gap(graph, gap.load, reader)) return false;
  return positions.before(gap.use) < positions.of(gap.release) &&
         positions.of(gap.release) <= positions.of(gap.load) &&
         positions.of(gap.load) <= positions.of(reader);
}

}  // namespace

std::optional<GapBorders> gap_borders(const Graph& graph, const Decisions& decisions) {
  GapBorders borders;
  const Positions positions(graph, decisions.order);
  EdgeId previous;
  for (const Gap& gap : decisions.gaps) {
    if (previous.valid() && !(previous < gap.use)) return std::nullopt;
    previous = gap.use;
    if (decisions.modes[gap.use] != Mode::swap || !is_possible(graph, positions, gap)) {
      return std::nullopt;
    }
    const TensorId tensor = graph.edge_tensor(gap.use);
    const int use = positions.of(graph.edge_op(gap.use));
    borders.releases.push_back({positions.of(gap.release), use, tensor});
    borders.loads.push_back({positions.of(gap.load), use, tensor});
  }
  std::size_t swapped = 0;
  for (std::size_t e = 0; e < decisions.modes.size(); ++e) {
    swapped += decisions.modes[EdgeId(e)] == Mode::swap ? 1 : 0;
  }
  if (swapped != decisions.gaps.size()) return std::nullopt;
  const auto in_order = [](const GapBorder& a, const GapBorder& b) {
    return std::tuple(a.position, a.use_position, a.tensor) <
           std::tuple(b.position, b.use_position, b.tensor);
  };
  std::ranges::sort(borders.releases, in_order);
  std::ranges::sort(borders.loads, in_order);
  return borders;
}

}  // namespace magis
