// The order of least peak of one piece: a search over its downsets, as memory-aware dynamic
// programming does it, but from one threshold to the next instead of length by length.
//
// What is live after a downset D, f(D), depends on D alone, not on the order that led there. The
// search raises a threshold p from a lower bound of the peak: downsets that are reached without
// exceeding p are explored, lowest f first; when there are none left, p rises to the least that was
// in the way. The first time that all nodes have run, p is the least peak.
//
// One rule makes it fast. From D, let X be the first downset reached whose f is no larger than D's.
// Then some best order continues from X, and everything else that was found on the way is
// forgotten. Proof: f is submodular, for a tensor is live if its maker has run and not all of its
// readers have. Among the subsets of X that contain D let Z be the largest of least f. The way to
// X, restricted to Z, stays below p: f(P & Z) <= f(P) + f(Z) - f(P | Z) <= f(P) for each step P.
// Lowest f first means that Z is reached no later than X, so Z = X. Now take a best order and run X
// before the rest: f(Y | X) <= f(Y) + f(X) - f(Y & X) <= f(Y) for each step Y, so nothing runs with
// more than before. In-place runs do not disturb this: where one lacks a reader in the smaller set,
// its operand is counted on the right-hand side and not on the left. Leaves that never lower the
// peak by waiting, and are placed first, are the case of a single step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/downset.h"

namespace magis {

template <int Words>
class DownsetSearch {
 public:
  enum class End : uint8_t {
    found,   // an order of least peak: order() and threshold()
    none,    // there is no order whose peak is below the bound
    states,  // too many downsets; some best order begins with order()
  };

  // Looks for an order whose peak is below `bound`. No order's is below `floor`, or, what is below
  // it does not count. Gives up after exploring `states` downsets from one from which everything
  // else was forgotten.
  End run(const Piece<Words>& piece, Bytes bound, Bytes floor, int states) {
    piece_ = &piece;
    threshold_ = floor;
    order_.clear();
    start_from(Downset<Words>::nothing_done(piece));
    while (static_cast<int>(states_.size()) <= states) {
      if (open_.empty() && !raise_threshold(bound)) return End::none;
      std::pop_heap(open_.begin(), open_.end());
      const int32_t lowest = open_.back().state;
      open_.pop_back();
      if (advance(lowest) && static_cast<int>(order_.size()) == piece.size()) return End::found;
    }
    return End::states;
  }
  // A lower bound of the peak, if the floor was one.
  Bytes threshold() const { return threshold_; }
  const std::vector<int>& order() const { return order_; }

 private:
  struct Open {  // heap: lowest f on top, of equals the shortest, then the earliest
    Bytes live;
    int32_t length;
    int32_t state;
    bool operator<(const Open& other) const {
      return std::tie(live, length, state) > std::tie(other.live, other.length, other.state);
    }
  };
  struct Deferred {  // heap: what exceeds the threshold least on top
    Bytes during;
    int32_t state;
    int32_t node;
    bool operator<(const Deferred& other) const {
      return std::tie(during, state, node) > std::tie(other.during, other.state, other.node);
    }
  };
  static std::size_t at(int32_t i) { return static_cast<std::size_t>(i); }

  void start_from(Downset<Words> root) {
    root.parent = -1;
    states_.assign(1, root);
    index_.clear();
    open_.assign(1, {root.live, 0, 0});
    deferred_.clear();
    length_.assign(1, 0);
  }

  // Explores one downset. Whether the search has committed itself to a new root.
  bool advance(int32_t state) {
    const Downset<Words> from = states_[at(state)];
    if (state != 0 && closes(from)) {
      commit(from);
      return true;
    }
    for (Bits<Words> left = from.ready; !left.empty();) {
      const int node = left.lowest();
      left.erase(node);
      const Bytes during = from.live + piece_->during(node, from.done);
      if (during > threshold_) {
        deferred_.push_back({during, state, node});
        std::push_heap(deferred_.begin(), deferred_.end());
        continue;
      }
      const Downset<Words> longer = from.after(*piece_, node, during, state);
      if (closes(longer)) {
        commit(longer);
        return true;
      }
      add(longer);
    }
    return false;
  }

  // All that was explored may be forgotten for this one.
  bool closes(const Downset<Words>& state) const {
    return state.live <= states_[0].live || state.ready.empty();
  }

  void add(const Downset<Words>& state) {
    const auto next = static_cast<int32_t>(states_.size());
    if (index_.find_or_insert(state.done, next, states_) >= 0) return;
    states_.push_back(state);
    length_.push_back(length_[at(state.parent)] + 1);
    open_.push_back({state.live, length_.back(), next});
    std::push_heap(open_.begin(), open_.end());
  }

  // Whether there is anything left below `bound`.
  bool raise_threshold(Bytes bound) {
    while (open_.empty()) {
      if (deferred_.empty() || deferred_.front().during >= bound) return false;
      threshold_ = deferred_.front().during;
      while (!deferred_.empty() && deferred_.front().during <= threshold_) {
        const auto [during, state, node] = deferred_.front();
        std::pop_heap(deferred_.begin(), deferred_.end());
        deferred_.pop_back();
        const Downset<Words> from = states_[at(state)];
        add(from.after(*piece_, node, during, state));
      }
    }
    return true;
  }

  void commit(Downset<Words> root) {
    const std::size_t length = order_.size();
    order_.push_back(root.node);
    for (int32_t s = root.parent; states_[at(s)].parent >= 0; s = states_[at(s)].parent) {
      order_.push_back(states_[at(s)].node);
    }
    std::reverse(order_.begin() + static_cast<std::ptrdiff_t>(length), order_.end());
    start_from(root);
  }

  const Piece<Words>* piece_ = nullptr;
  Bytes threshold_ = 0;
  std::vector<int> order_;
  std::vector<Downset<Words>> states_;  // found from the root, which comes first
  std::vector<int32_t> length_;         // of the way from the root
  DownsetIndex<Words> index_;
  std::vector<Open> open_;
  std::vector<Deferred> deferred_;
};

}  // namespace magis
