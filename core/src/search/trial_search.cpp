#include "search/trial_search.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "magis/schedule/program.h"
#include "search/objective.h"
#include "search/patience.h"
#include "search/schedule_search.h"

namespace magis {

bool adds_parts(const Graph& graph) {
  return std::ranges::any_of(graph.operators(), [](const Operator& op) {
    const std::string& name = op.info->name;
    return name == "magis.add_part" || name == "magis.add_parts" || name == "magis.mul_part" ||
           name == "magis.add_mm_part" || name == "magis.add_bmm_part";
  });
}

TrialSearch::TrialSearch(const Graph& source, const CostTable& source_costs,
                         const DeviceProfile& profile, const OptimizeOptions& options,
                         const LowerBound& bound, const FissionGround* ground)
    : source_(source),
      source_costs_(source_costs),
      profile_(profile),
      options_(options),
      bound_(bound),
      ground_(ground) {}

std::optional<Graph> TrialSearch::split(const Trial& trial) const {
  std::variant<Graph, std::string> made = ground_->split(trial.regions);
  if (!std::holds_alternative<Graph>(made)) return std::nullopt;
  if (options_.exact && adds_parts(std::get<Graph>(made))) return std::nullopt;
  return std::get<Graph>(std::move(made));
}

std::optional<Cost> TrialSearch::plain_cost(const Trial& trial) const {
  const std::optional<Graph> graph = split(trial);
  if (!graph) return std::nullopt;
  const std::optional<Program> program = lower(*graph, program_order(*graph));
  const Footprint found = footprint(*graph, *program, make_cost_table(*graph, profile_));
  return Cost{found.transient_peak, to_picoseconds(found.seconds)};
}

OptimizeResult TrialSearch::schedule(const Graph& graph, const CostTable& costs, const Trial& trial,
                                     const Allowance& allowance, const Report& report,
                                     SearchedTrial& searched) const {
  OptimizeOptions options = options_;
  options.seed += allowance.round;
  options.time_budget = allowance.seconds;
  options.state_budget = allowance.states;
  options.search_memory = allowance.memory;
  if (!allowance.swaps) options.host_memory = 0;
  const Objective objective(options_.limit, source_costs_.persistent);
  Patience patience(objective, allowance.patience, graph.op_count());
  options.progress = [&](const Progress& progress) {
    if (!report(progress)) return false;
    if (allowance.patience == 0) return true;
    const Cost best{progress.best_peak - source_costs_.persistent,
                    to_picoseconds(progress.best_seconds)};
    return patience.lasts(best, progress.states_evaluated);
  };
  ScheduleSearch part{.bound = &bound_,
                      .known = allowance.known,
                      .found = &searched.orders,
                      .constructed = &searched.constructed};
  using enum Allowance::Start;
  const Decisions& start = allowance.start == best ? trial.best : trial.constructed;
  if (allowance.start != anew && !start.order.empty()) part.start = &start;
  if (allowance.archives) part.archive = &searched.archive;
  return search_schedule(graph, costs, options, part);
}

std::optional<SearchedTrial> TrialSearch::search(const Trial& trial, const Allowance& allowance,
                                                 const Report& report) const {
  SearchedTrial searched;
  if (!trial.unsplit) {
    std::optional<Graph> graph = split(trial);
    if (!graph) return std::nullopt;
    searched.graph = std::make_shared<const Graph>(*std::move(graph));
  }
  const Graph& graph = searched.graph ? *searched.graph : source_;
  const CostTable costs = searched.graph ? make_cost_table(graph, profile_) : source_costs_;
  searched.result = schedule(graph, costs, trial, allowance, report, searched);
  const OptimizeResult& result = searched.result;
  if (result.swapped > 0 && options_.limit.kind == Limit::Kind::latency &&
      result.found.seconds > options_.limit.seconds) {
    // Its copies may be what it waits for beyond the limit.
    Allowance without = allowance;
    without.swaps = false;
    OptimizeResult other = schedule(graph, costs, trial, without, report, searched);
    other.states_scored += result.states_scored;
    other.states_evaluated += result.states_evaluated;
    if (other.met || !result.met) searched.result = std::move(other);
  }
  if (ground_) searched.hotspots = ground_->hotspots(graph, searched.result.decisions, costs);
  return searched;
}

}  // namespace magis
