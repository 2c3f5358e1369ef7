#include "search/schedule_search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "magis/analysis/structure.h"
#include "magis/base/error.h"
#include "magis/base/hash.h"
#include "magis/schedule/program.h"
#include "magis/schedule/scheduler.h"
#include "search/best_first.h"
#include "search/greedy.h"
#include "search/local_search.h"
#include "search/reorder.h"
#include "search/ruin_recreate.h"
#include "search/swap_planner.h"

namespace magis {
namespace {

Footprint footprint_of(const Graph& graph, const Decisions& decisions, const CostTable& costs) {
  const std::optional<Program> program = lower(graph, decisions);
  MAGIS_CHECK(program.has_value(), "the schedule recomputes what cannot be recomputed");
  return footprint(graph, *program, costs);
}

CostTable with_host_memory(CostTable costs, const OptimizeOptions& options) {
  costs.host_memory = options.host_memory.value_or(costs.host_memory);
  return costs;
}

// Uses at structurally equal sites, of tensors that can be made again.
std::vector<std::vector<EdgeId>> repeated_uses(const Problem& problem) {
  constexpr int kRadius = 3;
  std::vector<std::vector<EdgeId>> classes = equal_edges(*problem.graph, kRadius);
  for (std::vector<EdgeId>& members : classes) {
    std::erase_if(members, [&](EdgeId edge) { return !problem.droppable[edge]; });
  }
  std::erase_if(classes, [](const auto& members) { return members.size() < 2; });
  return classes;
}

OptimizeResult evaluated_result(Evaluator& evaluator, const Decisions& decisions) {
  OptimizeResult result;
  result.decisions = decisions;
  result.found = footprint_of(*evaluator.problem().graph, decisions, *evaluator.problem().costs);
  evaluator.load(decisions);
  result.recomputed = evaluator.recomputed_operators();
  result.swapped = evaluator.gap_count();
  return result;
}

class Optimizer {
 public:
  Optimizer(const Graph& graph, const CostTable& costs, const OptimizeOptions& options,
            const ScheduleSearch& part)
      : graph_(graph),
        costs_(with_host_memory(costs, options)),
        options_(options),
        part_(part),
        problem_(graph, costs_, options.recompute),
        evaluator_(problem_),
        bound_(part.bound ? *part.bound
                          : lower_bound(graph, costs_, {.swap = costs_.host_memory > 0})),
        budget_(options, problem_.op_count(), [this](const Budget&) { return report(); }),
        random_(options.seed),
        classes_(repeated_uses(problem_)),
        greedy_(evaluator_, budget_, random_),
        best_first_(evaluator_, greedy_.scorer(), budget_, classes_, options.search_memory),
        swaps_(make_swap_planner()),
        incumbent_(start()) {}

  OptimizeResult run() {
    const Seconds cpu_start = process_seconds();
    const Footprint baseline = footprint_of(graph_, incumbent_.decisions(), costs_);
    search();
    drop_needless_swaps();
    OptimizeResult result = evaluated_result(evaluator_, incumbent_.decisions());
    result.baseline = baseline;
    MAGIS_CHECK(
        result.found.transient_peak == incumbent_.cost().peak,
        "promised " << incumbent_.cost().peak << ", simulated " << result.found.transient_peak);
    result.bound = bound_;
    result.met = incumbent_.met();
    result.stop_reason = budget_.reason().value_or(StopReason::converged);
    result.states_scored = budget_.scored();
    result.states_evaluated = budget_.evaluated();
    result.wall_seconds = budget_.elapsed();
    result.cpu_seconds = process_seconds() - cpu_start;
    return result;
  }

 private:
  std::optional<SwapPlanner> make_swap_planner() {
    if (costs_.host_memory == 0 || !costs_.copies_overlap) return std::nullopt;
    return std::make_optional<SwapPlanner>(evaluator_, budget_);
  }

  Incumbent start() {
    Decisions decisions = program_order(graph_);
    evaluator_.load(decisions);
    least_time_ = evaluator_.time();
    if (part_.archive && part_.archive->wants(cost())) part_.archive->put({cost(), decisions});
    return Incumbent(Objective(options_.limit, costs_.persistent), std::move(decisions), cost(),
                     part_.archive);
  }
  Cost cost() const { return {evaluator_.peak(), evaluator_.time()}; }

  bool report() {
    if (!options_.progress) return true;
    return options_.progress({.best_peak = costs_.persistent + incumbent_.cost().peak,
                              .best_seconds = to_seconds(incumbent_.cost().time),
                              .met = incumbent_.met(),
                              .states_scored = budget_.scored(),
                              .states_evaluated = budget_.evaluated(),
                              .elapsed = budget_.elapsed(),
                              .bound = bound_.bytes});
  }

  // Nothing can be better: every operator runs once, or the certified bound is reached.
  bool perfect() const {
    const Cost& best = incumbent_.cost();
    if (!incumbent_.met()) return false;
    return incumbent_.objective().limits_memory() ? best.time == least_time_
                                                  : best.peak + costs_.persistent <= bound_.bytes;
  }

  void search() {
    if (part_.start) {
      evaluator_.load(*part_.start);
      incumbent_.offer(evaluator_, cost());
      improve();
      return;
    }
    if (perfect()) return;
    const std::vector<Decisions> reordered = good_orders();
    if (perfect()) return;
    for (const Decisions& start : most_promising(with_swaps(reordered))) {
      if (done()) return;
      expand_from(start);
      drop_in_all_ways(start);
      keep_what_fits(start);
    }
    if (done()) return;
    best_first_.run(incumbent_, kPatience);
    if (part_.constructed && !done()) *part_.constructed = incumbent_.decisions();
    improve();
  }

  // Plain schedules of little memory: for the peak, and for the bytes along the whole step.
  std::vector<Decisions> good_orders() {
    if (part_.known && !part_.known->orders.empty() &&
        part_.known->names == operator_names(graph_)) {
      return known_orders();
    }
    schedule_for_peak();
    if (perfect()) return {evaluator_.decisions()};
    std::vector<Decisions> reordered;
    reorder_for_peak(evaluator_, budget_);
    incumbent_.offer(evaluator_, cost());
    reordered.push_back(evaluator_.decisions());
    reorder_for_area(evaluator_, budget_);
    incumbent_.offer(evaluator_, cost());
    reordered.push_back(evaluator_.decisions());
    if (part_.found && !budget_.stopped()) {
      part_.found->names = operator_names(graph_);
      part_.found->orders.clear();  // of the same graph, searched before with other options
      for (const Decisions& plain : reordered) part_.found->orders.push_back(plain.order);
    }
    return reordered;
  }

  std::vector<Decisions> known_orders() {
    std::vector<Decisions> known;
    for (const std::vector<OpId>& order : part_.known->orders) {
      Decisions plain = program_order(graph_);
      plain.order = order;
      evaluator_.load(plain);
      budget_.count_evaluated();
      incumbent_.offer(evaluator_, cost());
      known.push_back(std::move(plain));
    }
    return known;
  }

  // The order of least peak that is found without recomputing anything. Loops stand as they are in
  // program order, as one node each.
  void schedule_for_peak() {
    const SchedulingProblem problem = make_scheduling_problem(graph_, costs_.bytes, costs_.scratch);
    FullScheduleOptions scheduling;
    scheduling.stop = [this] { return budget_.elapsed() >= options_.time_budget; };
    const Schedule schedule = schedule_fully(problem, scheduling);
    if (schedule.peak >= evaluator_.peak()) return;
    Decisions decisions = program_order(graph_);
    decisions.order = operators_in_order(problem, schedule.order);
    evaluator_.load(decisions);
    incumbent_.offer(evaluator_, cost());
  }

  // The schedules, and before them the same with as much on the host as can be hidden: what exceeds
  // the limit, or if there is none what exceeds some shares of the peak. An order with gaps does
  // not change any more, so that less may come of it.
  std::vector<Decisions> with_swaps(const std::vector<Decisions>& starts) {
    if (!swaps_) return starts;
    const Objective& objective = incumbent_.objective();
    std::vector<Decisions> swapped;
    for (const double share : {0.3, 0.6, 0.1}) {
      for (const Decisions& start : starts) {
        restore(evaluator_, start);
        const auto peak = static_cast<double>(evaluator_.peak());
        swaps_->plan(objective.limits_memory() ? objective.peak_limit()
                                               : static_cast<Bytes>(share * peak));
        evaluator_.forget();
        incumbent_.offer(evaluator_, cost());
        swapped.push_back(evaluator_.decisions());
      }
      if (objective.limits_memory()) break;
    }
    std::ranges::copy(starts, std::back_inserter(swapped));
    return swapped;
  }

  void drop_needless_swaps() {
    if (!swaps_ || incumbent_.decisions().gaps.empty()) return;
    evaluator_.load(incumbent_.decisions());
    swaps_->tighten(allowed(incumbent_.cost().peak));
    swaps_->settle(allowed(incumbent_.cost().peak));
    incumbent_.replace_if_as_fast(evaluator_, cost());
  }
  // A schedule of that peak may grow so far.
  Bytes allowed(Bytes peak) const {
    const Objective& objective = incumbent_.objective();
    return objective.limits_memory() ? std::max(peak, objective.peak_limit()) : peak;
  }

  void expand_from(const Decisions& start) {
    if (done()) return;
    evaluator_.load(start);
    const Cost waiting{evaluator_.peak(), evaluator_.time() + evaluator_.exposed()};
    Incumbent best(incumbent_.objective(), start, waiting, part_.archive);
    best_first_.run(best, kPatience);
    incumbent_.offer(best);
  }

  // The few starts from which one greedy descent leads furthest.
  std::vector<Decisions> most_promising(std::vector<Decisions> starts) {
    constexpr std::size_t kStarts = 3;
    std::vector<std::pair<Cost, Decisions>> ends;
    for (Decisions& start : starts) {
      if (done()) return {};
      restore(evaluator_, start);
      const Cost waiting{evaluator_.peak(), evaluator_.time() + evaluator_.exposed()};
      Incumbent best(incumbent_.objective(), start, waiting, part_.archive);
      drop_greedily(start, kFirstRule, kFirstStep, best);
      incumbent_.offer(best);
      ends.emplace_back(best.cost(), std::move(start));
    }
    std::ranges::stable_sort(ends, [&](const auto& a, const auto& b) {
      return incumbent_.objective().better(a.first, b.first);
    });
    starts.clear();
    for (auto& [end, start] : ends) {
      if (starts.size() < kStarts) starts.push_back(std::move(start));
    }
    return starts;
  }

  void drop_in_all_ways(const Decisions& start) {
    for (const double step : {0.0, 0.02, 0.1}) {
      // Without a limit on memory there is no goal to aim at.
      if (!incumbent_.objective().limits_memory() && step == 0) continue;
      for (const GreedyRule rule : kGreedyRules) {
        if (done()) return;
        if (rule == kFirstRule && step == kFirstStep) continue;
        drop_greedily(start, rule, step, incumbent_);
      }
    }
  }

  // From the other end, where dropping has not met the limit on memory: everything is made again
  // for each use, then what saves most time stays as long as there is room. The chains grow with
  // the square of the graph, so that it has to be small.
  void keep_what_fits(const Decisions& start) {
    constexpr int kMostOperators = 400;
    constexpr int64_t kMostTime = 40;  // of the step
    const Objective& objective = incumbent_.objective();
    if (done() || !objective.limits_memory() || incumbent_.met()) return;
    if (evaluator_.op_count() > kMostOperators) return;
    restore(evaluator_, start);
    greedy_.make_anew(0, evaluator_.op_count(), true);
    evaluator_.forget();
    if (!evaluator_.feasible() || evaluator_.time() > kMostTime * least_time_) return;
    if (!greedy_.descend({.rule = kFirstRule, .goal = objective.peak_limit()}, incumbent_)) return;
    greedy_.tighten(objective.peak_limit());
    incumbent_.offer(evaluator_, cost());
  }

  void drop_greedily(const Decisions& start, GreedyRule rule, double step, Incumbent& best) {
    const Objective& objective = incumbent_.objective();
    restore(evaluator_, start);
    greedy_.descend({.rule = rule,
                     .goal = objective.limits_memory() ? objective.peak_limit() : 0,
                     .time_limit = objective.time_limit(),
                     .step = step},
                    best);
    greedy_.tighten(evaluator_.peak());
    if (swaps_) swaps_->settle(allowed(evaluator_.peak()));
    best.offer(evaluator_, cost());
  }

  // Cycles of both kinds of improvement, longer ones when short ones find nothing any more.
  void improve() {
    constexpr int kCycles = 6;  // without success
    constexpr int kAttempts = 40;
    const int64_t steps = 4'000 + int64_t{20} * problem_.op_count();
    RuinRecreate ruin_recreate(evaluator_, greedy_, swaps_ ? &*swaps_ : nullptr, budget_, random_);
    LocalSearch local_search(evaluator_, greedy_.scorer(), budget_, random_, classes_);
    for (int failures = 0; failures < kCycles && !done();) {
      const Cost before = incumbent_.cost();
      for (int i = 0; i < kAttempts << failures && !done(); ++i) {
        ruin_recreate.attempt(incumbent_);
      }
      if (done()) return;
      local_search.anneal(incumbent_, steps << failures);
      failures = incumbent_.cost() == before ? failures + 1 : 0;
    }
  }

  bool done() const { return perfect() || budget_.stopped(); }

  static constexpr GreedyRule kFirstRule = GreedyRule::relief_per_time;
  static constexpr double kFirstStep = 0.1;
  static constexpr int64_t kPatience = 200;  // states of best-first search without success

  const Graph& graph_;
  const CostTable costs_;
  const OptimizeOptions& options_;
  const ScheduleSearch part_;
  Problem problem_;
  Evaluator evaluator_;
  LowerBound bound_;
  Budget budget_;
  Random random_;
  std::vector<std::vector<EdgeId>> classes_;
  Greedy greedy_;
  BestFirst best_first_;
  std::optional<SwapPlanner> swaps_;
  Picoseconds least_time_ = 0;
  Incumbent incumbent_;
};

}  // namespace

std::string_view to_text(StopReason reason) {
  switch (reason) {
    case StopReason::converged:
      return "converged";
    case StopReason::time_budget:
      return "time_budget";
    case StopReason::state_budget:
      return "state_budget";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

uint64_t operator_names(const Graph& graph) {
  uint64_t names = graph.op_count();
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    names = combine(names, std::hash<std::string_view>()(graph.name(OpId(i))));
  }
  return names;
}

OptimizeResult optimize_schedule(const Graph& graph, const CostTable& costs,
                                 const OptimizeOptions& options) {
  return search_schedule(graph, costs, options, {});
}

OptimizeResult result_of(const Graph& graph, const CostTable& costs, const Decisions& decisions) {
  const Problem problem(graph, costs);
  Evaluator evaluator(problem);
  return evaluated_result(evaluator, decisions);
}

OptimizeResult search_schedule(const Graph& graph, const CostTable& costs,
                               const OptimizeOptions& options, const ScheduleSearch& part) {
  return Optimizer(graph, costs, options, part).run();
}

}  // namespace magis
