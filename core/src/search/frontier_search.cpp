// The whole frontier between memory and time: limits on time from none at all to a multiple are
// searched one after another, each from the best that is known for it, in turns until the budget is
// used up or a turn brings nothing.
#include <algorithm>
#include <iterator>
#include <utility>

#include "magis/base/error.h"
#include "search/fission_search.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

// Of the time in program order; the last is as good as none. In turns: the ends first, then between
// them.
constexpr double kTimeLimits[] = {1.1,   2.0,  1.03, 1.3,  1.0,  1.06, 1.2,
                                  1.015, 1.15, 1.5,  1.04, 1.08, 1e6};
constexpr double kSieveShare = 0.15;
constexpr Seconds kNoLimit = 1e6;
constexpr std::size_t kRacedALimit = 8;

}  // namespace

std::vector<OptimizeResult> FissionSearch::find_frontier() {
  archives_ = true;
  aim_at({.kind = Limit::Kind::latency, .seconds = kNoLimit});
  reorder();
  frontier_.put({best_cost_, best_.decisions, {}, nullptr});
  std::vector<Trial> trials = frontier_trials();
  const Seconds base = best_.baseline.seconds;
  constexpr auto kCount = static_cast<double>(std::size(kTimeLimits));
  bool first_turn = true;
  for (bool progress = true; progress && !monitor_.stopped(); first_turn = false) {
    progress = false;
    double waiting = kCount;
    for (const double ratio : kTimeLimits) {
      if (monitor_.stopped()) break;
      span_ = whole_span();
      span_.begin = monitor_.elapsed();
      span_.end = span_.begin + (span_.end - span_.begin) / waiting;
      if (options_.state_budget > 0) {
        span_.states_begin = monitor_.evaluated();
        const auto states = static_cast<double>(options_.state_budget - monitor_.evaluated());
        span_.states_end = monitor_.evaluated() + static_cast<int64_t>(states / waiting) + 1;
      }
      --waiting;
      const Limit limit{.kind = Limit::Kind::latency, .seconds = ratio * base};
      progress = search_limit(limit, first_turn ? trials : std::vector<Trial>()) || progress;
    }
  }
  return frontier_plans();
}

// Every region in every number of parts, counted.
std::vector<Trial> FissionSearch::frontier_trials() {
  rate_.emplace(objective_, to_picoseconds(best_.baseline.seconds));
  std::vector<Trial> trials;
  if (ground_) {
    trials = sieved(all_trials(make_trials()), monitor_.elapsed() + span_.share(kSieveShare));
  }
  trials.push_back({.unsplit = true, .plain = cost_of_baseline()});
  return trials;
}

void FissionSearch::aim_at(const Limit& limit) {
  options_.limit = limit;
  objective_ = Objective(limit, costs_.persistent);
  monitor_.set_objective(objective_);
}

// Whether the frontier became better.
bool FissionSearch::search_limit(const Limit& limit, const std::vector<Trial>& trials) {
  aim_at(limit);
  rate_.emplace(objective_, to_picoseconds(best_.baseline.seconds));
  improved_ = false;
  std::vector<Trial> searched_trials;
  if (const Point* known = frontier_.best(objective_)) {
    best_cost_ = known->cost;
    best_.met = objective_.met(known->cost);
    monitor_.set_best(best_cost_, best_.met);
    searched_trials.push_back({.regions = known->regions,
                               .unsplit = !known->split,
                               .plain = known->cost,
                               .searched = true,
                               .cost = known->cost,
                               .best = known->decisions});
  }
  std::vector<Trial> waiting;
  for (const Trial& trial : trials) {
    if (trial.plain.time <= objective_.time_limit()) waiting.push_back(trial);
  }
  race(waiting, searched_trials, kRacedALimit);
  search_again(searched_trials, 1);
  return improved_;
}

// Takes all schedules that a search came by.
void FissionSearch::archive(SearchedTrial& found, const Trial& trial) {
  for (auto& [range, entry] : found.archive.take()) {
    if (!frontier_.wants(entry.cost)) continue;
    frontier_.put({entry.cost, std::move(entry.decisions), trial.regions, found.graph});
    improved_ = true;
  }
}

// From the fastest to the smallest.
std::vector<OptimizeResult> FissionSearch::frontier_plans() {
  std::vector<OptimizeResult> plans;
  auto points = frontier_.take();
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    OptimizeResult plan = frontier_plan(std::move(point->second));
    // What differs by less than the search's picoseconds is no slower.
    constexpr double kSlower = 1 + 1e-9;
    while (!plans.empty() && plan.found.seconds <= plans.back().found.seconds * kSlower) {
      plans.pop_back();
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

OptimizeResult FissionSearch::frontier_plan(Point point) const {
  const Graph& graph = point.split ? *point.split : source_;
  const CostTable costs = point.split ? make_cost_table(graph, profile_) : costs_;
  OptimizeResult plan = result_of(graph, costs, point.decisions);
  MAGIS_CHECK(plan.found.transient_peak == point.cost.peak,
              "promised " << point.cost.peak << ", simulated " << plan.found.transient_peak);
  plan.split = std::move(point.split);
  plan.regions = std::move(point.regions);
  plan.baseline = best_.baseline;
  plan.bound = bound_;
  plan.met = true;
  plan.stop_reason = stop_reason();
  plan.states_scored = monitor_.scored();
  plan.states_evaluated = monitor_.evaluated();
  plan.wall_seconds = monitor_.elapsed();
  plan.cpu_seconds = process_seconds() - cpu_start_;
  return plan;
}

}  // namespace magis
