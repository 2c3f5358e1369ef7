#include "magis/base/error.h"
#include "magis/schedule/scheduler.h"
#include "schedule/list_passes.h"
#include "schedule/stretch_scheduler.h"

namespace magis {
namespace {

class FullScheduler {
 public:
  FullScheduler(const SchedulingProblem& problem, const FullScheduleOptions& options)
      : problem_(problem),
        options_(options),
        stretches_({options.states, options.beam}, options.window, options.stop) {}

  Schedule run(std::span<const NodeId> given) {
    const Bytes given_peak = peak_of(problem_, given);
    Schedule best{{given.begin(), given.end()}, given_peak, false};
    PlacedOrder placed(problem_, given);
    for (int round = 0; round < options_.rounds && !best.exact && !is_stopped(); ++round) {
      const Bytes before = best.peak;
      best.exact = stretches_.improve(placed, 0, problem_.size());
      offer(placed, best);
      if (best.exact || (round > 0 && best.peak == before)) break;
      hasten(placed);
      postpone(placed);
      offer(placed, best);
    }
    return best;
  }

 private:
  bool is_stopped() const { return options_.stop && options_.stop(); }
  void offer(const PlacedOrder& placed, Schedule& best) const {
    const Bytes peak = peak_of(problem_, placed.order);
    if (peak >= best.peak) return;
    best.order = placed.order;
    best.peak = peak;
  }

  const SchedulingProblem& problem_;
  const FullScheduleOptions& options_;
  StretchScheduler stretches_;
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
