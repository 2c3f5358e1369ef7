// A piece is searched from both ends. Where a search explores too many downsets, what it has
// committed itself to stays: a beginning, or searching backward an end, with which some best order
// begins or ends. What is left in the middle is smaller.
#include "schedule/piece_scheduler.h"

#include <algorithm>

#include "magis/base/error.h"

namespace magis {

template <int Words>
class PieceScheduler::Improvement {
 public:
  Improvement(Searches<Words>& searches, std::vector<NodeId>& permuted, PlacedOrder& placed,
              std::size_t begin, std::size_t end, const SearchLimits& limits)
      : piece_(searches.piece),
        search_(searches.search),
        beam_(searches.beam),
        permuted_(permuted),
        placed_(placed),
        begin_(begin),
        end_(end),
        limits_(limits) {
    measure();
    floor_ = piece_.least_during(peak_.node);
  }

  Bytes peak() const { return base_ + peak_.bytes; }

  // Whether no order of the stretch has a lower peak than the one that it ends with.
  bool run() {
    if (narrow_down()) return true;
    for (bool found = true; found;) {
      found = false;
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        if (solved()) return true;
        found |= lower(direction);
      }
    }
    if (limits_.beam == 0) return false;
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      if (solved()) return true;
      sweep_with_beam(direction);
    }
    return false;
  }

 private:
  using Search = DownsetSearch<Words>;
  bool solved() const { return peak_.bytes <= floor_; }

  // Of what is left, as it is.
  void measure() {
    piece_.assign(placed_, begin_, end_);
    peak_ = piece_.given_peak();
  }

  // Whether the least peak was found.
  bool narrow_down() {
    for (std::size_t size = 0; size != end_ - begin_;) {
      size = end_ - begin_;
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        if (solved() || search(direction)) return true;
      }
    }
    return false;
  }

  // Whether the least peak was found; else drops what the search has committed itself to.
  bool search(Direction direction) {
    const Bytes shift = prepare(direction);
    const auto ended = search_.run(piece_, peak_.bytes - shift, floor_ - shift, limits_.states);
    if (ended == Search::End::none) return true;
    floor_ = std::max(floor_, search_.threshold() + shift);
    apply(search_.order(), direction);
    if (ended == Search::End::found) {
      measure();
      return true;
    }
    if (search_.order().empty()) return false;
    drop(search_.order().size(), direction);
    return false;
  }

  // Any lower peak, without a claim to the least.
  bool lower(Direction direction) {
    const Bytes shift = prepare(direction);
    const Bytes bound = peak_.bytes - shift;
    if (search_.run(piece_, bound, bound - 1, limits_.states) != Search::End::found) return false;
    apply(search_.order(), direction);
    measure();
    return true;
  }
  void sweep_with_beam(Direction direction) {
    const Bytes shift = prepare(direction);
    if (!beam_.run(piece_, floor_ - shift, peak_.bytes - shift, limits_.beam)) return;
    apply(beam_.order(), direction);
    measure();
  }

  // Returns what has to be taken off bytes counted from the beginning.
  Bytes prepare(Direction direction) {
    piece_.assign(placed_, begin_, end_);
    if (direction == Direction::forward) return 0;
    const Bytes shift = piece_.given_change();
    piece_.assign(placed_, begin_, end_, direction);
    return shift;
  }

  // Puts the given nodes first (backward: last), the others stay in order.
  void apply(const std::vector<int>& nodes, Direction direction) {
    if (nodes.empty()) return;
    const auto first = placed_.order.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto last = placed_.order.begin() + static_cast<std::ptrdiff_t>(end_);
    permuted_.assign(first, last);
    if (direction == Direction::backward) std::ranges::reverse(permuted_);
    Bits<Words> moved;
    auto to = first;  // in the order of the direction, turned round below
    for (const int node : nodes) {
      moved.insert(node);
      *to++ = permuted_[static_cast<std::size_t>(node)];
    }
    for (int node = 0; node < piece_.size(); ++node) {
      if (!moved.has(node)) *to++ = permuted_[static_cast<std::size_t>(node)];
    }
    if (direction == Direction::backward) std::reverse(first, last);
    placed_.place(begin_, end_);
  }

  // Takes the first nodes (backward: the last) out of what is left.
  void drop(std::size_t count, Direction direction) {
    if (direction == Direction::backward) {
      end_ -= count;
    } else {
      piece_.assign(placed_, begin_, begin_ + count);
      const Bytes change = piece_.given_change();
      base_ += change;
      floor_ -= change;
      begin_ += count;
    }
    const Bytes limit = floor_;
    measure();
    floor_ = limit;
  }

  Piece<Words>& piece_;
  DownsetSearch<Words>& search_;
  DownsetBeam<Words>& beam_;
  std::vector<NodeId>& permuted_;
  PlacedOrder& placed_;
  // What is left, and bytes above what is live when it begins. What was dropped stays within the
  // floor.
  std::size_t begin_;
  std::size_t end_;
  typename Piece<Words>::Peak peak_{0, 0};
  Bytes floor_ = 0;  // no order has a lower peak
  Bytes base_ = 0;   // what is live then above what is live when the stretch begins
  const SearchLimits& limits_;
};

PieceOutcome PieceScheduler::improve(PlacedOrder& placed, std::size_t begin, std::size_t end,
                                     const SearchLimits& limits) {
  const std::size_t size = end - begin;
  MAGIS_CHECK(size <= kMostNodes, "a piece of " << size << " nodes");
  if (size == 0) return {};
  const auto improve_with = [&]<int Words>(Searches<Words>& searches) -> PieceOutcome {
    before_.assign(placed.order.begin() + static_cast<std::ptrdiff_t>(begin),
                   placed.order.begin() + static_cast<std::ptrdiff_t>(end));
    Improvement<Words> improvement(searches, permuted_, placed, begin, end, limits);
    const Bytes given = improvement.peak();
    const bool exact = improvement.run();
    searches.piece.assign(placed, begin, end);
    const Bytes peak = searches.piece.given_peak().bytes;
    if (peak < given) return {peak, true, exact};
    std::ranges::copy(before_, placed.order.begin() + static_cast<std::ptrdiff_t>(begin));
    placed.place(begin, end);
    return {given, false, exact};
  };
  if (size <= Bits<1>::kCapacity) return improve_with(narrow_);
  if (size <= Bits<2>::kCapacity) return improve_with(medium_);
  return improve_with(wide_);
}

}  // namespace magis
