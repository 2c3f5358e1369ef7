// Schedules stretches of an order, each as a piece of its own: the code that the full and the
// incremental scheduler share.
#pragma once

#include <cstddef>

#include "schedule/downset_search.h"

namespace magis {

class PieceScheduler {
 public:
  static constexpr std::size_t kMostNodes = 256;

  // Puts the stretch [begin, end) of `placed`, at most kMostNodes nodes, into an order of lower
  // peak if there is one; else leaves it as it is. The outcome's peak is above what is live when
  // the stretch begins.
  SearchOutcome improve(PlacedOrder& placed, std::size_t begin, std::size_t end,
                        const SearchLimits& limits);

 private:
  template <int Words>
  struct OfWidth {
    Piece<Words> piece;
    DownsetSearch<Words> search;
  };
  template <int Words>
  SearchOutcome improve(OfWidth<Words>& width, PlacedOrder& placed, std::size_t begin,
                        std::size_t end, const SearchLimits& limits);

  OfWidth<1> narrow_;
  OfWidth<2> medium_;
  OfWidth<4> wide_;
  std::vector<NodeId> permuted_;
};

}  // namespace magis
