#include "schedule/piece_scheduler.h"

#include <algorithm>

#include "magis/base/error.h"

namespace magis {

SearchOutcome PieceScheduler::improve(PlacedOrder& placed, std::size_t begin, std::size_t end,
                                      const SearchLimits& limits) {
  const std::size_t size = end - begin;
  MAGIS_CHECK(size <= kMostNodes, "a piece of " << size << " nodes");
  if (size <= Bits<1>::kCapacity) return improve(narrow_, placed, begin, end, limits);
  if (size <= Bits<2>::kCapacity) return improve(medium_, placed, begin, end, limits);
  return improve(wide_, placed, begin, end, limits);
}

template <int Words>
SearchOutcome PieceScheduler::improve(OfWidth<Words>& width, PlacedOrder& placed,
                                      std::size_t begin, std::size_t end,
                                      const SearchLimits& limits) {
  if (begin == end) return {};
  width.piece.assign(placed, begin, end);
  const auto [given, at_node] = width.piece.given_peak();
  if (end - begin == 1) return {given, false, true};
  const Bytes floor = width.piece.least_during(at_node);
  if (floor >= given) return {given, false, true};
  const SearchOutcome outcome = width.search.run(width.piece, given, floor, limits);
  if (!outcome.better) return outcome;
  permuted_.clear();
  for (const int node : width.search.order()) {
    permuted_.push_back(placed.order[begin + static_cast<std::size_t>(node)]);
  }
  std::ranges::copy(permuted_, placed.order.begin() + static_cast<std::ptrdiff_t>(begin));
  placed.place(begin, end);
  return outcome;
}

}  // namespace magis
