// What takes over where a piece has too many downsets: the best few of every length.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/downset.h"

namespace magis {

template <int Words>
class DownsetBeam {
 public:
  // Looks for an order on which nothing runs with `bound` bytes or more; what stays within `floor`
  // is all the same. Whether there is one: then it is in order().
  bool run(const Piece<Words>& piece, Bytes floor, Bytes bound, int width) {
    states_.assign(1, Downset<Words>::nothing_done(piece));
    states_[0].peak = floor;
    order_.clear();
    std::size_t begin = 0;
    for (int length = 0; length < piece.size(); ++length) {
      const std::size_t end = states_.size();
      extend(piece, begin, end, bound);
      if (states_.size() == end) return false;
      keep_best(end, static_cast<std::size_t>(width));
      begin = end;
    }
    for (auto s = static_cast<int32_t>(begin); states_[at(s)].parent >= 0;
         s = states_[at(s)].parent) {
      order_.push_back(states_[at(s)].node);
    }
    std::ranges::reverse(order_);
    return true;
  }
  const std::vector<int>& order() const { return order_; }

 private:
  static std::size_t at(int32_t i) { return static_cast<std::size_t>(i); }

  void extend(const Piece<Words>& piece, std::size_t begin, std::size_t end, Bytes bound) {
    index_.clear();
    for (std::size_t s = begin; s < end; ++s) {
      const Downset<Words> from = states_[s];
      const int harmless = find_harmless(piece, from);
      if (harmless >= 0) {
        add(from.after(piece, harmless, from.peak, static_cast<int32_t>(s)));
        continue;
      }
      from.ready.for_each([&](int node) {
        const Bytes during = from.live + piece.during(node, from.done);
        if (during >= bound) return;
        add(from.after(piece, node, std::max(during, from.peak), static_cast<int32_t>(s)));
      });
    }
  }

  // Whatever comes later, nothing is lost by running it now.
  int find_harmless(const Piece<Words>& piece, const Downset<Words>& from) const {
    int found = -1;
    from.ready.for_each([&](int node) {
      if (found < 0 && from.live + piece.during(node, from.done) <= from.peak &&
          piece.change(node, from.done) <= 0) {
        found = node;
      }
    });
    return found;
  }

  void add(Downset<Words> state) {
    const int32_t known =
        index_.find_or_insert(state.done, static_cast<int32_t>(states_.size()), states_);
    if (known < 0) {
      states_.push_back(std::move(state));
    } else if (state.peak < states_[at(known)].peak) {
      states_[at(known)] = std::move(state);
    }
  }

  void keep_best(std::size_t begin, std::size_t width) {
    const auto first = states_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto better = [](const Downset<Words>& a, const Downset<Words>& b) {
      return std::tie(a.peak, a.live, a.parent, a.node) <
             std::tie(b.peak, b.live, b.parent, b.node);
    };
    const auto kept = first + static_cast<std::ptrdiff_t>(std::min(width, states_.size() - begin));
    std::partial_sort(first, kept, states_.end(), better);
    states_.erase(kept, states_.end());
  }

  std::vector<int> order_;
  std::vector<Downset<Words>> states_;  // all lengths, one after another
  DownsetIndex<Words> index_;           // of the last length
};

}  // namespace magis
