#include "search/scoring.h"

#include <algorithm>

namespace magis {

Scorer::Scorer(const Problem& problem) : problem_(problem) {
  constexpr Bytes kSmallestShare = 1000;  // of the largest tensor
  const auto may_drop = [&](EdgeId edge) {
    return problem.droppable[edge] || (problem.swaps_for_time() && problem.swappable[edge]);
  };
  Bytes largest = 0;
  for (std::size_t e = 0; e < problem.droppable.size(); ++e) {
    if (may_drop(EdgeId(e))) {
      largest = std::max(largest, problem.bytes[problem.edge_tensor[EdgeId(e)]]);
    }
  }
  for (std::size_t e = 0; e < problem.droppable.size(); ++e) {
    const EdgeId edge(e);
    const Bytes bytes = problem.bytes[problem.edge_tensor[edge]];
    if (may_drop(edge) && bytes > 0 && bytes * kSmallestShare >= largest) edges_.push_back(edge);
  }
}

void Scorer::focus(const Evaluator& evaluator, Bytes target) {
  target_ = target;
  const auto count = static_cast<std::size_t>(evaluator.op_count());
  overflow_.focus(evaluator, target);
  front_peak_.assign(count + 1, 0);
  back_peak_.assign(count + 1, 0);
  last_excess_.assign(count + 1, -1);
  for (std::size_t k = 0; k < count; ++k) {
    const Bytes bytes = evaluator.bytes_at(static_cast<int>(k));
    front_peak_[k + 1] = std::max(front_peak_[k], bytes);
    last_excess_[k + 1] = bytes > target ? static_cast<int>(k) : last_excess_[k];
  }
  for (std::size_t k = count; k-- > 0;) {
    back_peak_[k] = std::max(back_peak_[k + 1], evaluator.bytes_at(static_cast<int>(k)));
  }
}

Mode Scorer::dropping_mode(const Evaluator& evaluator, EdgeId edge) {
  if (evaluator.is_swapped(evaluator.problem().edge_tensor[edge])) return Mode::keep;
  switch (evaluator.mode(edge).kind()) {
    case Mode::keep:
      return Mode::recompute;
    case Mode::recompute:
    case Mode::recompute_late:
      return evaluator.held_from(edge) < evaluator.use_position(edge) ? Mode::recompute_anew
                                                                      : Mode::keep;
    case Mode::recompute_anew:
    case Mode::swap:
      break;
  }
  return Mode::keep;
}

// Where a chain's copy is held, and chains beyond the last excess of memory look for it too: held
// from the first one of these.
bool Scorer::score_later(const Evaluator& evaluator, EdgeId edge, Scored& later) const {
  const int use = evaluator.use_position(edge);
  const int excess = last_excess_[static_cast<std::size_t>(use)];
  if (excess <= evaluator.held_from(edge)) return false;
  const int next = evaluator.first_need(edge, excess + 1);
  if (next >= use) return false;
  later.edit = {edge, Mode::late(evaluator.op_at(next))};
  later.gain.time = problem_.time[problem_.producer[problem_.edge_tensor[edge]]];
  return score_absence(static_cast<std::size_t>(evaluator.held_from(edge) + 1),
                       static_cast<std::size_t>(next), edge, later.gain);
}

bool Scorer::score(const Evaluator& evaluator, EdgeId edge, Gain& gain) const {
  const auto begin = static_cast<std::size_t>(evaluator.held_from(edge) + 1);
  const auto end = static_cast<std::size_t>(evaluator.use_position(edge));
  if (!score_absence(begin, end, edge, gain)) return false;
  const Evaluator::ChainCost cost = evaluator.chain_cost(edge);
  gain.time = cost.time;
  return cost.feasible;
}

bool Scorer::score_swap(const Evaluator& evaluator, EdgeId edge, Gain& gain) const {
  if (!problem_.swaps_for_time() || evaluator.mode(edge) != Mode::keep) return false;
  const Gap gap = evaluator.widest_gap(edge);
  if (!gap.use.valid()) return false;
  const TensorId tensor = problem_.edge_tensor[edge];
  const bool stored = evaluator.is_swapped(tensor);
  const Bytes more = stored ? 0 : problem_.host_bytes[tensor];
  if (evaluator.host_bytes() + more > problem_.costs->host_memory) return false;
  gain.time = problem_.copy_wait[tensor] * (stored ? 1 : 2);
  return score_absence(static_cast<std::size_t>(evaluator.position(gap.release)),
                       static_cast<std::size_t>(evaluator.position(gap.load)), edge, gain);
}

// What it brings if the tensor is not there from position `begin` to `end`; false if nothing.
bool Scorer::score_absence(std::size_t begin, std::size_t end, EdgeId edge, Gain& gain) const {
  if (begin >= end || !overflow_.any(begin, end)) return false;
  const Bytes bytes = problem_.bytes[problem_.edge_tensor[edge]];
  gain.relief = overflow_.relief(begin, end, bytes);
  // What lies between is taken to fall by the tensor's bytes everywhere.
  const Bytes peak = front_peak_.back();
  const Bytes outside = std::max(front_peak_[begin], back_peak_[end]);
  gain.drop = std::clamp<Bytes>(peak - outside, 0, bytes);
  return true;
}

Gain Scorer::score_return(const Evaluator& evaluator, EdgeId edge) const {
  const Bytes bytes = problem_.bytes[problem_.edge_tensor[edge]];
  const Bytes peak = front_peak_.back();
  Gain gain;
  for (int k = evaluator.previous_position(edge) + 1; k < evaluator.held_from(edge); ++k) {
    const Bytes now = evaluator.bytes_at(k);
    gain.relief -= std::max<Bytes>(0, now + bytes - target_) - std::max<Bytes>(0, now - target_);
    gain.drop = std::min(gain.drop, peak - now - bytes);
  }
  // The chain at hand is taken to go with it, or its last operator if others need it too.
  const OpId producer = problem_.producer[problem_.edge_tensor[edge]];
  Picoseconds chain = 0;
  for (const OpId op : evaluator.chain_at(evaluator.held_from(edge))) chain += problem_.time[op];
  gain.time = -std::max(problem_.time[producer], chain / 2);
  return gain;
}

const std::vector<Scorer::Scored>& Scorer::score_all(const Evaluator& evaluator, Budget& budget) {
  scored_.clear();
  for (const EdgeId edge : edges_) {
    Scored drop{{edge, dropping_mode(evaluator, edge)}, {}};
    if (drop.edit.mode != Mode::keep && score(evaluator, edge, drop.gain)) scored_.push_back(drop);
    Scored later;
    if (drop.edit.mode == Mode::recompute_anew && score_later(evaluator, edge, later)) {
      scored_.push_back(later);
    }
    Scored swap{{edge, Mode::swap}, {}};
    if (score_swap(evaluator, edge, swap.gain)) scored_.push_back(swap);
  }
  budget.count_scored(static_cast<int64_t>(scored_.size()));
  return scored_;
}

}  // namespace magis
