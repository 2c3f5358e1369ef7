#include <algorithm>
#include <utility>

#include "magis/base/error.h"
#include "magis/schedule/scheduler.h"
#include "schedule/list_passes.h"
#include "schedule/piece_scheduler.h"
#include "schedule/waists.h"

namespace magis {
namespace {

class FullScheduler {
 public:
  FullScheduler(const SchedulingProblem& problem, const FullScheduleOptions& options)
      : problem_(problem),
        options_(options),
        limits_{options.states, options.beam},
        most_nodes_(std::min<std::size_t>(static_cast<std::size_t>(options.window),
                                          PieceScheduler::kMostNodes)) {}

  Schedule run(std::span<const NodeId> given) {
    const Bytes given_peak = peak_of(problem_, given);
    Schedule best{{given.begin(), given.end()}, given_peak, false};
    PlacedOrder placed(problem_, given);
    for (int round = 0; round < options_.rounds && !best.exact; ++round) {
      const Bytes before = best.peak;
      best.exact = schedule_pieces(placed);
      offer(placed, best);
      if (best.exact || (round > 0 && best.peak == before)) break;
      hasten(placed);
      postpone(placed);
      offer(placed, best);
    }
    return best;
  }

 private:
  void offer(const PlacedOrder& placed, Schedule& best) const {
    const Bytes peak = peak_of(problem_, placed.order);
    if (peak >= best.peak) return;
    best.order = placed.order;
    best.peak = peak;
  }

  // Whether no order has a lower peak.
  bool schedule_pieces(PlacedOrder& placed) {
    bool exact = true;
    std::size_t begin = 0;
    for (const std::size_t end : cut_at_waists(placed, 0, problem_.size())) {
      if (end - begin <= most_nodes_) {
        exact &= pieces_.improve(placed, begin, end, limits_).exact;
      } else {
        sweep(placed, begin, end);
        exact = false;
      }
      begin = end;
    }
    return exact;
  }

  // A window that overlaps the next by half, over a piece that is too long.
  void sweep(PlacedOrder& placed, std::size_t begin, std::size_t end) {
    const std::size_t step = std::max<std::size_t>(1, most_nodes_ / 2);
    for (std::size_t from = begin;; from += step) {
      pieces_.improve(placed, from, std::min(from + most_nodes_, end), limits_);
      if (from + most_nodes_ >= end) return;
    }
  }

  const SchedulingProblem& problem_;
  const FullScheduleOptions& options_;
  SearchLimits limits_;
  std::size_t most_nodes_;
  PieceScheduler pieces_;
};

}  // namespace

Schedule schedule_fully(const SchedulingProblem& problem, std::span<const NodeId> given,
                        const FullScheduleOptions& options) {
  MAGIS_CHECK(is_valid_order(problem, given), "the order given breaks precedence");
  return FullScheduler(problem, options).run(given);
}

Schedule schedule_fully(const SchedulingProblem& problem, const FullScheduleOptions& options) {
  return schedule_fully(problem, program_order(problem), options);
}

}  // namespace magis
