// Exchanging two neighbours in the order: only the border between them and what both read changes.
#include <algorithm>

#include "search/evaluator.h"

namespace magis {

bool Evaluator::can_exchange(int position) const {
  if (gap_count_ > 0) return false;
  if (problem_.body[op_at(position)] != problem_.body[op_at(position + 1)]) return false;
  const OpId second = op_at(position + 1);
  const auto predecessors = problem_.graph->predecessors(second);
  if (std::ranges::find(predecessors, op_at(position)) != predecessors.end()) return false;
  return std::ranges::none_of(chain_at(position), [&](OpId copied) {
    const auto writers = problem_.overwriters[Problem::row(copied)];
    return std::ranges::find(writers, second) != writers.end();
  });
}

int Evaluator::move(int from, int to) {
  while (from < to && can_exchange(from)) exchange(from++);
  while (from > to && can_exchange(from - 1)) exchange(--from);
  return from;
}

void Evaluator::exchange(int position) {
  const OpId first = op_at(position);
  const OpId second = op_at(position + 1);
  for (const OpId op : {first, second}) {
    for (const EdgeId edge : segments_[op].holds) {
      if (holder_[edge] == op) release(edge);
    }
  }
  find_shared(position);
  release_shared();
  const Bytes before = carried_between(position);
  changes_.push_back({.kind = Change::Kind::exchange, .id = position});
  exchange_order(position);
  relink_kept();
  const Bytes after = carried_between(position);
  if (after != before) add_carry(position + 1, position + 1, after - before);
  hold_shared();
  mark_dirty(position);
  mark_dirty(position + 1);
  settle();
}

// The order alone. Its own inverse.
void Evaluator::exchange_order(int position) {
  const std::size_t k = at(position);
  const OpId first = order_[k];
  const OpId second = order_[k + 1];
  hash_ ^= order_key(first, position) ^ order_key(first, position + 1) ^
           order_key(second, position) ^ order_key(second, position + 1);
  std::swap(order_[k], order_[k + 1]);
  profile_.set_top(position, segments_[second].top);
  profile_.set_top(position + 1, segments_[first].top);
  position_[first] = position + 1;
  position_[second] = position;
  for (const auto [edge, tensor] : problem_.operands[Problem::row(first)]) {
    const EdgeId next = next_use(edge);
    if (!next.valid() || problem_.edge_op[next] != second) continue;
    std::swap(sequence_[at(rank_[edge])], sequence_[at(rank_[next])]);
    std::swap(rank_[edge], rank_[next]);
  }
}

void Evaluator::find_shared(int position) {
  shared_.clear();
  const OpId second = op_at(position + 1);
  for (const auto [edge, tensor] : problem_.operands[Problem::row(op_at(position))]) {
    const EdgeId next = next_use(edge);
    if (!next.valid() || problem_.edge_op[next] != second) continue;
    shared_.push_back(
        {edge, next, next_use(next), mode_[edge] == Mode::keep && mode_[next] == Mode::keep});
  }
}

// Where a shared tensor is not kept for both, who holds it for whom depends on which comes first:
// everything is let go here and held anew by hold_shared() and by the chains.
void Evaluator::release_shared() {
  for (const auto& [first, second, after, kept] : shared_) {
    if (kept) continue;
    const int begin = previous_position(first);
    mark_dirty(begin);
    mark_dirty(held_from(first));
    mark_asking(problem_.edge_tensor[first], begin + 1, use_position(first) - 1);
    for (const EdgeId edge : {first, second}) {
      if (holder_[edge] != problem_.edge_op[edge]) release(edge);
    }
    if (after.valid() && mode_[after] == Mode::keep) release(after);
  }
}

void Evaluator::relink_kept() {
  for (const auto& [first, second, after, kept] : shared_) {
    if (!kept) continue;
    set_holder(second, holder_[first]);
    set_holder(first, problem_.edge_op[second]);
    if (after.valid() && mode_[after] == Mode::keep) set_holder(after, problem_.edge_op[first]);
  }
}

void Evaluator::hold_shared() {
  for (const auto& [first, second, after, kept] : shared_) {
    if (kept) continue;
    for (const EdgeId edge : {second, first, after}) {
      if (edge.valid() && mode_[edge] == Mode::keep) hold(edge, previous_op(edge));
    }
  }
}

// Bytes across the border between `position` and the next, of what the two operators read and make.
Bytes Evaluator::carried_between(int position) {
  const int border = position + 1;
  Bytes bytes = 0;
  ++stamp_;
  for (const OpId op : {op_at(position), op_at(border)}) {
    for (const auto [edge, tensor] : problem_.operands[Problem::row(op)]) {
      if (visited_[tensor] == stamp_) continue;
      visited_[tensor] = stamp_;
      if (live_at(tensor, border)) bytes += problem_.bytes[tensor];
    }
  }
  for (const TensorId made : problem_.results[Problem::row(op_at(position))]) {
    if (live_at(made, border)) bytes += problem_.bytes[made];
  }
  return bytes;
}

}  // namespace magis
