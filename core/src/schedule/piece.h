// A stretch of an order, cut out as a problem of its own: what runs before and after stays where it
// is. Bytes are counted from what is live when the stretch begins.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "magis/schedule/scheduling_problem.h"
#include "schedule/bits.h"

namespace magis {

// An order and where each node stands in it.
struct PlacedOrder {
  PlacedOrder(const SchedulingProblem& of, std::span<const NodeId> nodes) { assign(of, nodes); }
  PlacedOrder() = default;

  void assign(const SchedulingProblem& of, std::span<const NodeId> nodes) {
    problem = &of;
    order.assign(nodes.begin(), nodes.end());
    position.resize(order.size());
    place(0, order.size());
  }
  // To be called after [begin, end) of the order was permuted.
  void place(std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      position[SchedulingProblem::row(order[k])] = static_cast<int>(k);
    }
  }
  int position_of(NodeId node) const { return position[SchedulingProblem::row(node)]; }

  const SchedulingProblem* problem = nullptr;
  std::vector<NodeId> order;
  std::vector<int> position;  // by node
};

enum class Direction : uint8_t { forward, backward };

// Nodes are numbered by their place in the stretch. Backward, time runs from the end: nodes are
// numbered, run and wait for one another the other way round, and bytes are counted from what is
// live when the stretch ends. The same search thus finds the end of an order.
template <int Words>
class Piece {
 public:
  using Set = Bits<Words>;

  // The stretch [begin, end) of `placed`, at most Set::kCapacity nodes.
  void assign(const PlacedOrder& placed, std::size_t begin, std::size_t end,
              Direction direction = Direction::forward);

  int size() const { return size_; }
  const Set& needs(int node) const { return needs_[at(node)]; }
  const Set& allows(int node) const { return allows_[at(node)]; }
  // Above what is live before it, `done` having run: most bytes while the node runs.
  Bytes during(int node, const Set& done) const {
    const Node& info = nodes_[at(node)];
    const Bytes bytes =
        direction_ == Direction::forward ? info.adds : info.adds + change(node, done);
    for (int i = info.first_operand; i < info.last_overwritable; ++i) {
      if (turns(operands_[at(i)], node, done)) return bytes - operands_[at(i)].bytes;
    }
    return bytes;
  }
  // Live bytes after it less those before it.
  Bytes change(int node, const Set& done) const {
    const Node& info = nodes_[at(node)];
    Bytes bytes = info.keeps;
    for (int i = info.first_operand; i < info.last_operand; ++i) {
      if (turns(operands_[at(i)], node, done)) bytes -= operands_[at(i)].bytes;
    }
    return direction_ == Direction::forward ? bytes : -bytes;
  }
  // Most bytes at any moment of the stretch as it is, and the first node where that is so.
  struct Peak {
    Bytes bytes;
    int node;
  };
  Peak given_peak() const;
  // Live bytes after the stretch less those before it.
  Bytes given_change() const;
  // No order of a forward piece runs `node` with less: what it needs, and what is certainly made
  // before it and read after it.
  Bytes least_during(int node) const;

 private:
  struct Operand {
    Bytes bytes;
    int maker;  // -1: made before the piece
    Set readers;
  };
  struct Node {
    Bytes adds = 0;   // results and scratch
    Bytes keeps = 0;  // results that are read later
    // Operands that die inside the piece, those whose storage the node may take over first.
    int first_operand = 0;
    int last_overwritable = 0;
    int last_operand = 0;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  // Whether the operand dies with the node, its last reader; backward, whether it comes to life.
  bool turns(const Operand& operand, int node, const Set& done) const {
    if (direction_ == Direction::backward) return !operand.readers.meets(done);
    Set later = done;
    later.insert(node);
    return operand.readers.within(later);
  }
  int number_of(int position) const {
    return direction_ == Direction::forward ? position - begin_ : end_ - 1 - position;
  }
  void add_operand(const PlacedOrder& placed, TensorId tensor);
  void add_node(const PlacedOrder& placed, int position);

  Direction direction_ = Direction::forward;
  int begin_ = 0;
  int end_ = 0;
  int size_ = 0;
  std::vector<Node> nodes_;
  std::vector<Operand> operands_;
  std::vector<Set> needs_;   // predecessors
  std::vector<Set> allows_;  // successors
};

template <int Words>
void Piece<Words>::add_operand(const PlacedOrder& placed, TensorId tensor) {
  const int made_at = placed.position_of(placed.problem->maker[tensor]);
  Operand operand{placed.problem->bytes[tensor], made_at < begin_ ? -1 : number_of(made_at), {}};
  for (const NodeId reader : placed.problem->readers[at(tensor.index)]) {
    const int position = placed.position_of(reader);
    if (position >= end_) return;  // outlives the piece
    if (position >= begin_) operand.readers.insert(number_of(position));
  }
  operands_.push_back(operand);
}

template <int Words>
void Piece<Words>::add_node(const PlacedOrder& placed, int position) {
  const SchedulingProblem& problem = *placed.problem;
  const std::size_t row = SchedulingProblem::row(placed.order[at(position)]);
  const int node = number_of(position);
  for (const NodeId predecessor : problem.predecessors[row]) {
    if (placed.position_of(predecessor) < begin_) continue;
    const int other = number_of(placed.position_of(predecessor));
    const auto [before, after] = std::minmax(node, other);
    needs_[at(after)].insert(before);
    allows_[at(before)].insert(after);
  }
  Node& info = nodes_[at(node)];
  info.adds = problem.results[row] + problem.scratch[row];
  info.keeps = problem.results[row];
  for (const TensorId made : problem.makes[row]) {
    if (problem.dies_unread(made)) info.keeps -= problem.bytes[made];
  }
  info.first_operand = static_cast<int>(operands_.size());
  const auto overwritable = problem.overwritable[row];
  for (const TensorId read : overwritable) add_operand(placed, read);
  info.last_overwritable = static_cast<int>(operands_.size());
  for (const TensorId read : problem.reads[row]) {
    if (std::ranges::find(overwritable, read) == overwritable.end()) add_operand(placed, read);
  }
  info.last_operand = static_cast<int>(operands_.size());
}

template <int Words>
void Piece<Words>::assign(const PlacedOrder& placed, std::size_t begin, std::size_t end,
                          Direction direction) {
  direction_ = direction;
  begin_ = static_cast<int>(begin);
  end_ = static_cast<int>(end);
  size_ = end_ - begin_;
  nodes_.resize(at(size_));
  needs_.assign(at(size_), {});
  allows_.assign(at(size_), {});
  operands_.clear();
  for (int position = begin_; position < end_; ++position) add_node(placed, position);
}

template <int Words>
typename Piece<Words>::Peak Piece<Words>::given_peak() const {
  Peak peak{0, -1};
  Bytes live = 0;
  Set done;
  for (int node = 0; node < size_; ++node) {
    const Bytes bytes = live + during(node, done);
    if (peak.node < 0 || bytes > peak.bytes) peak = {bytes, node};
    live += change(node, done);
    done.insert(node);
  }
  return peak;
}

template <int Words>
Bytes Piece<Words>::given_change() const {
  Bytes live = 0;
  Set done;
  for (int node = 0; node < size_; ++node) {
    live += change(node, done);
    done.insert(node);
  }
  return live;
}

template <int Words>
Bytes Piece<Words>::least_during(int node) const {
  Set before;  // in every order; the given one is topological
  before.insert(node);
  for (int i = node; i >= 0; --i) {
    if (before.has(i)) before |= needs_[at(i)];
  }
  Set after;
  after.insert(node);
  for (int i = node; i < size_; ++i) {
    if (after.has(i)) after |= allows_[at(i)];
  }
  before.erase(node);
  Set perhaps;  // has run before the node in some order
  for (int i = 0; i < size_; ++i) {
    if (!after.has(i)) perhaps.insert(i);
  }
  const Node& info = nodes_[at(node)];
  Bytes live = info.adds;
  for (int i = info.first_operand; i < info.last_overwritable; ++i) {
    if (!turns(operands_[at(i)], node, perhaps)) continue;
    live -= operands_[at(i)].bytes;
    break;
  }
  before.for_each([&](int i) { live += nodes_[at(i)].keeps; });
  for (int i = 0; i < size_; ++i) {
    for (int k = nodes_[at(i)].first_operand; k < nodes_[at(i)].last_operand; ++k) {
      const Operand& operand = operands_[at(k)];
      if (operand.readers.lowest() != i) continue;  // each tensor once
      const bool certainly_made = operand.maker < 0 || before.has(operand.maker);
      if (certainly_made && operand.readers.within(perhaps)) live -= operand.bytes;
    }
  }
  return live;
}

}  // namespace magis
