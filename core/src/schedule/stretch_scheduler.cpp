#include "schedule/stretch_scheduler.h"

#include <algorithm>

#include "schedule/waists.h"

namespace magis {

StretchScheduler::StretchScheduler(const SearchLimits& limits, int window,
                                   std::function<bool()> stop)
    : limits_(limits),
      window_(
          std::clamp<std::size_t>(static_cast<std::size_t>(window), 2, PieceScheduler::kMostNodes)),
      stop_(std::move(stop)) {}

bool StretchScheduler::improve(PlacedOrder& placed, std::size_t begin, std::size_t end) {
  bool exact = true;
  for (const std::size_t piece_end : cut_at_waists(placed, begin, end)) {
    if (is_stopped()) return false;
    if (piece_end - begin <= window_) {
      exact &= pieces_.improve(placed, begin, piece_end, limits_).exact;
    } else {
      sweep(placed, begin, piece_end);
      exact = false;
    }
    begin = piece_end;
  }
  return exact;
}

void StretchScheduler::sweep(PlacedOrder& placed, std::size_t begin, std::size_t end) {
  for (std::size_t from = begin;; from += window_ / 2) {
    pieces_.improve(placed, from, std::min(from + window_, end), limits_);
    if (from + window_ >= end || is_stopped()) return;
  }
}

}  // namespace magis
