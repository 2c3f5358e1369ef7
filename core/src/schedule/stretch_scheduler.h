// Schedules stretches of any length: pieces between narrow waists, windows where a piece is too
// long.
#pragma once

#include <functional>
#include <utility>

#include "schedule/piece_scheduler.h"

namespace magis {

class StretchScheduler {
 public:
  // Windows have `window` nodes, at most PieceScheduler::kMostNodes, and overlap by half.
  // `stop` is asked between them; empty: never.
  StretchScheduler(const SearchLimits& limits, int window, std::function<bool()> stop = {});

  // Puts [begin, end) of `placed` into an order of no higher peak. Whether no order of the stretch
  // has a lower one.
  bool improve(PlacedOrder& placed, std::size_t begin, std::size_t end);
  // The same of one window, at most that long. Whether its peak has fallen.
  bool lower_window(PlacedOrder& placed, std::size_t begin, std::size_t end) {
    return pieces_.improve(placed, begin, end, limits_).better;
  }

 private:
  bool is_stopped() const { return stop_ && stop_(); }
  void sweep(PlacedOrder& placed, std::size_t begin, std::size_t end);

  SearchLimits limits_;
  std::size_t window_;
  std::function<bool()> stop_;
  PieceScheduler pieces_;
};

}  // namespace magis
