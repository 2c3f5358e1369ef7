// One segment of the program: which copies an operator asks for, and the memory and time they take.
#include <algorithm>

#include "search/evaluator.h"

namespace magis {

void Evaluator::derive(int position) {
  const OpId op = order_[at(position)];
  ++stamp_;
  fresh_.clear();
  level_ = 0;
  const auto operands = problem_.operands[Problem::row(op)];
  const bool missing =
      std::ranges::any_of(operands, [&](const Operand& o) { return holder_[o.edge] == op; });
  if (missing) {
    fresh_.feasible = make_chain(op, position);
    if (!fresh_.feasible) {
      fresh_.chain.clear();
      fresh_.holds.clear();
    }
    account_chain(op);
  }
  account_operator(op);
  if (!fresh_.holds.empty() || !segments_[op].holds.empty()) update_holds(op);
  store_segment(op, position);
}

// Depth first in operand order, as lower() does. False if something can neither be found nor made.
bool Evaluator::make_chain(OpId consumer, int position) {
  frames_.assign(1, {consumer, 0});
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    const auto operands = problem_.operands[Problem::row(frame.op)];
    if (frame.operand == operands.size()) {
      const OpId done = frame.op;
      frames_.pop_back();
      if (done == consumer) break;
      ran_[done] = stamp_;
      fresh_.chain.push_back(done);
      fresh_.time += problem_.time[done];
      continue;
    }
    const auto [edge, tensor] = operands[frame.operand];
    const bool own = frame.op == consumer;
    if (!own) ask(tensor);
    if (is_copied(tensor) || (own ? holder_[edge] != consumer : live_at(tensor, position))) {
      ++frame.operand;
      continue;
    }
    const OpId producer = problem_.producer[tensor];
    if (ran_[producer] == stamp_) {
      note_copy(tensor, consumer, position);
      ++frame.operand;
      continue;
    }
    if (!may_run_again(producer, position)) return false;
    frames_.push_back({producer, 0});
  }
  return true;
}

void Evaluator::ask(TensorId tensor) {
  if (visited_[tensor] == stamp_) return;
  visited_[tensor] = stamp_;
  fresh_.asked.push_back(tensor);
}

// The chain's copy serves a later use too if that use neither lets go of it nor is the consumer's
// own.
void Evaluator::note_copy(TensorId tensor, OpId consumer, int position) {
  copied_[tensor] = stamp_;
  const EdgeId use = first_use_from(tensor, position);
  if (use.valid() && problem_.edge_op[use] == consumer) {
    stays_[tensor] = stays_after(use);
    return;
  }
  stays_[tensor] = use.valid() && keeps_copy(mode_[use], position);
  if (stays_[tensor]) fresh_.holds.push_back(use);
}

void Evaluator::account_chain(OpId consumer) {
  const int length = static_cast<int>(fresh_.chain.size());
  for (int i = 0; i < length; ++i) {
    const OpId op = fresh_.chain[at(i)];
    for (const auto [edge, tensor] : problem_.operands[Problem::row(op)]) last_read_[tensor] = i;
  }
  for (const auto [edge, tensor] : problem_.operands[Problem::row(consumer)]) {
    last_read_[tensor] = length;
  }
  for (int i = 0; i < length; ++i) account_copy(fresh_.chain[at(i)], i);
}

void Evaluator::account_copy(OpId op, int index) {
  const auto dies = [&](TensorId tensor) {
    return is_copied(tensor) && last_read_[tensor] == index && !stays_[tensor];
  };
  TensorId over;
  for (const auto [edge, tensor] : problem_.overwritable[Problem::row(op)]) {
    if (!dies(tensor)) continue;
    over = tensor;
    break;
  }
  add_results(op, over.valid());
  for (const auto [edge, tensor] : problem_.operands[Problem::row(op)]) {
    if (tensor != over && dies(tensor)) level_ -= problem_.bytes[tensor];
  }
  for (const TensorId made : problem_.results[Problem::row(op)]) {
    if (!is_copied(made)) level_ -= problem_.bytes[made];
  }
}

void Evaluator::account_operator(OpId op) {
  const auto overwritable = problem_.overwritable[Problem::row(op)];
  add_results(op, std::ranges::any_of(overwritable, [&](const Operand& operand) {
                return !stays_after(operand.edge);
              }));
}

void Evaluator::add_results(OpId op, bool over) {
  const auto results = problem_.results[Problem::row(op)];
  for (std::size_t i = over ? 1 : 0; i < results.size(); ++i) level_ += problem_.bytes[results[i]];
  fresh_.top = std::max(fresh_.top, level_ + problem_.scratch[op]);
}

void Evaluator::update_holds(OpId op) {
  for (const EdgeId edge : fresh_.holds) held_stamp_[edge] = stamp_;
  for (const EdgeId edge : segments_[op].holds) {
    if (holder_[edge] == op && held_stamp_[edge] != stamp_) release(edge);
  }
  for (const EdgeId edge : fresh_.holds) {
    if (holder_[edge] != op) hold(edge, op);
  }
}

}  // namespace magis
