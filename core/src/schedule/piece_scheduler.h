// Schedules stretches of an order, each as a piece of its own: the code that the full and the
// incremental scheduler share.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/downset_beam.h"
#include "schedule/downset_search.h"

namespace magis {

struct SearchLimits {
  int states = 20'000;  // downsets that one search explores before it commits itself
  int beam = 32;        // downsets of each length where that is not enough; 0: no beam
};

struct PieceOutcome {
  Bytes peak = 0;       // above what is live when the stretch begins
  bool better = false;  // than before
  bool exact = true;    // no order of the stretch has a lower peak
};

class PieceScheduler {
 public:
  static constexpr std::size_t kMostNodes = 256;

  // Puts the stretch [begin, end) of `placed`, at most kMostNodes nodes, into an order of lower
  // peak if it finds one; else leaves it as it is.
  PieceOutcome improve(PlacedOrder& placed, std::size_t begin, std::size_t end,
                       const SearchLimits& limits);

 private:
  template <int Words>
  struct Searches {
    Piece<Words> piece;
    DownsetSearch<Words> search;
    DownsetBeam<Words> beam;
  };
  template <int Words>
  class Improvement;

  Searches<1> narrow_;
  Searches<2> medium_;
  Searches<4> wide_;
  std::vector<NodeId> before_;
  std::vector<NodeId> permuted_;
};

}  // namespace magis
