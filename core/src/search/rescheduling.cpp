#include "search/rescheduling.h"

#include <algorithm>
#include <utility>

#include "search/paper_rules.h"
#include "search/segment_problem.h"

namespace magis {

RescheduleOptions rescheduling_options() {
  RescheduleOptions options;
  options.peak_windows = 1;
  options.states = 200;
  options.beam = 2;
  options.window = 32;
  return options;
}

std::optional<Decisions> rescheduled(const Evaluator& evaluator, Evaluator& trial,
                                     IncrementalScheduler& scheduler, LoopId loop,
                                     const std::vector<std::vector<OpId>>& changed) {
  const SegmentProblem segments = make_segment_problem(evaluator, loop);
  const std::vector<NodeId> before = program_order(segments.problem);
  std::vector<NodeId> order = before;
  for (const std::vector<OpId>& group : changed) {
    std::vector<NodeId> nodes;
    for (const OpId op : group) {
      if (segments.node[op].valid()) nodes.push_back(segments.node[op]);
    }
    if (!nodes.empty()) scheduler.reschedule(segments.problem, nodes, order);
  }
  if (order == before) return std::nullopt;
  Decisions decisions = evaluator.decisions();
  const std::vector<OpId> operators = operators_in_order(segments.problem, order);
  std::ranges::copy(operators, decisions.order.begin() + segments.first);
  // Gaps are named by operators that may have moved.
  const std::vector<Gap> gaps = std::exchange(decisions.gaps, {});
  for (const Gap& gap : gaps) decisions.modes[gap.use] = Mode::keep;
  trial.load(decisions);
  for (const Gap& gap : gaps) trial.set_mode(gap.use, Mode::swap);
  place_swaps(trial);
  trial.forget();
  if (!trial.feasible()) return std::nullopt;
  return trial.decisions();
}

}  // namespace magis
