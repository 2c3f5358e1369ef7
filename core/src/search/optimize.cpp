// Rewriting around the search for regions and schedules. Rewrites that save time and no memory is
// paid for come first; what they save, memory can be bought with. Those that may cost memory
// (merging what is read at different times) make a second graph, if there are any: both are
// searched for a while, and the better one for the rest of the budget. Of a frontier, the better
// one is that of which more plans stand.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "magis/base/error.h"
#include "search/fission_search.h"
#include "search/objective.h"
#include "search/paper_search.h"
#include "search/rewriter.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

constexpr double kRewriteShare = 0.2;  // of the budget, at most
constexpr double kTrialShare = 0.15;   // for each of two graphs
constexpr Seconds kMatching = 2e-5;    // an operator, about; it is not interrupted
// What merging has to save of the time, to be worth a trial.
constexpr double kWorthATrial = 0.005;

class RewriteSearch {
 public:
  RewriteSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : graph_(graph), profile_(profile), options_(options), begin_(now()) {}

  OptimizeResult run() {
    rewrite();
    if (graphs_.empty()) return FissionSearch(graph_, profile_, remaining(1)).run();
    if (graphs_.size() == 1) return finished(search(graphs_.front(), 1), graphs_.front());
    OptimizeResult first = search(graphs_[0], kTrialShare);
    OptimizeResult second = search(graphs_[1], kTrialShare / (1 - kTrialShare));
    const std::size_t better = is_better(second, first) ? 1 : 0;
    OptimizeResult& best = better == 1 ? second : first;
    if (best.stop_reason != StopReason::interrupted && seconds_left() > 0 && states_left() > 0) {
      OptimizeResult last = search(graphs_[better], 1);
      if (is_better(last, best)) best = std::move(last);
    }
    return finished(std::move(best), graphs_[better]);
  }

  std::vector<OptimizeResult> find_frontier() {
    rewrite();
    if (graphs_.empty()) return FissionSearch(graph_, profile_, remaining(1)).find_frontier();
    if (graphs_.size() == 1) return frontier(graphs_.front(), 1);
    std::vector<OptimizeResult> plans = best_of(
        frontier(graphs_[0], kTrialShare), frontier(graphs_[1], kTrialShare / (1 - kTrialShare)));
    const auto merged = std::ranges::count(plans, graphs_[1], &OptimizeResult::rewritten);
    const bool merging = 2 * merged > std::ssize(plans);
    const bool interrupted = plans.front().stop_reason == StopReason::interrupted;
    if (interrupted || seconds_left() <= 0 || states_left() <= 0) return plans;
    return best_of(std::move(plans), frontier(graphs_[merging ? 1 : 0], 1));
  }

 private:
  std::vector<OptimizeResult> frontier(const std::shared_ptr<const Graph>& rewritten,
                                       double share) {
    std::vector<OptimizeResult> plans =
        FissionSearch(*rewritten, profile_, remaining(share), baseline_).find_frontier();
    if (!plans.empty()) {
      scored_ += plans.front().states_scored;
      evaluated_ += plans.front().states_evaluated;
    }
    for (OptimizeResult& plan : plans) plan = finished(std::move(plan), rewritten);
    return plans;
  }

  // Of both, what is not beaten in time and memory; from the fastest to the smallest.
  static std::vector<OptimizeResult> best_of(std::vector<OptimizeResult> plans,
                                             std::vector<OptimizeResult> more) {
    std::ranges::move(more, std::back_inserter(plans));
    std::ranges::stable_sort(plans, {}, [](const OptimizeResult& plan) {
      return std::pair(to_picoseconds(plan.found.seconds), plan.found.transient_peak);
    });
    std::vector<OptimizeResult> best;
    for (OptimizeResult& plan : plans) {
      if (best.empty() || plan.found.transient_peak < best.back().found.transient_peak) {
        best.push_back(std::move(plan));
      }
    }
    return best;
  }

  static Seconds now() {
    return std::chrono::duration<Seconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  Seconds seconds_left() const { return options_.time_budget - (now() - begin_); }
  int64_t states_left() const {
    return options_.state_budget == 0 ? 1 : options_.state_budget - evaluated_;
  }

  // `share` of what is left of the budget.
  OptimizeOptions remaining(double share) const {
    OptimizeOptions options = options_;
    options.time_budget = std::max(0.0, share * seconds_left());
    if (options_.state_budget > 0) {
      const double states = share * static_cast<double>(states_left());
      options.state_budget = std::max<int64_t>(1, static_cast<int64_t>(states));
    }
    if (!options_.progress) return options;
    options.progress = [this](const Progress& progress) {
      Progress whole = progress;
      whole.states_scored += scored_;
      whole.states_evaluated += evaluated_;
      whole.elapsed = now() - begin_;
      return options_.progress(whole);
    };
    return options;
  }

  void rewrite() {
    const auto operators = static_cast<double>(graph_.op_count());
    if (operators * kMatching > kRewriteShare * options_.time_budget) return;
    const CostTable costs = make_cost_table(graph_, profile_);
    baseline_ = result_of(graph_, costs, program_order(graph_)).found;
    const Seconds until = now() + kRewriteShare * options_.time_budget;
    Rewriter rewriter(graph_, profile_,
                      {.exact = options_.exact, .without = options_.without_rules},
                      [=] { return now() > until; });
    const auto take = [&] { graphs_.push_back(std::make_shared<const Graph>(rewriter.graph())); };
    if (rewriter.save_time(true)) take();
    const Seconds before = rewriter.saved();
    if (rewriter.save_time(false) && rewriter.saved() - before > kWorthATrial * baseline_.seconds) {
      if (graphs_.empty()) graphs_.push_back(std::make_shared<const Graph>(graph_));
      take();
    }
  }

  OptimizeResult search(const std::shared_ptr<const Graph>& rewritten, double share) {
    OptimizeResult result = FissionSearch(*rewritten, profile_, remaining(share), baseline_).run();
    scored_ += result.states_scored;
    evaluated_ += result.states_evaluated;
    return result;
  }

  bool is_better(const OptimizeResult& a, const OptimizeResult& b) const {
    const Objective objective(options_.limit, make_cost_table(graph_, profile_).persistent);
    const auto cost = [](const OptimizeResult& result) {
      return Cost{result.found.transient_peak, to_picoseconds(result.found.seconds)};
    };
    return objective.better(cost(a), cost(b));
  }

  OptimizeResult finished(OptimizeResult result,
                          const std::shared_ptr<const Graph>& rewritten) const {
    result.rewritten = rewritten;
    if (!result.split) result.split = rewritten;
    result.states_scored = std::max(result.states_scored, scored_);
    result.states_evaluated = std::max(result.states_evaluated, evaluated_);
    result.wall_seconds = now() - begin_;
    result.cpu_seconds = process_seconds() - cpu_begin_;
    return result;
  }

  const Graph& graph_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const Seconds begin_;
  const Seconds cpu_begin_ = process_seconds();
  Footprint baseline_;
  std::vector<std::shared_ptr<const Graph>> graphs_;  // one or two; none: nothing pays
  int64_t scored_ = 0;
  int64_t evaluated_ = 0;
};

}  // namespace

// What the user asks for by hand is done to the graph as it is.
OptimizeResult optimize(const Graph& graph, const DeviceProfile& profile,
                        const OptimizeOptions& options) {
  check_strategy(options);
  if (options.strategy == Strategy::paper) return optimize_as_published(graph, profile, options);
  if (!options.rewrite || options.batch_parts > 0) {
    return FissionSearch(graph, profile, options).run();
  }
  return RewriteSearch(graph, profile, options).run();
}

std::vector<OptimizeResult> find_frontier(const Graph& graph, const DeviceProfile& profile,
                                          const OptimizeOptions& options) {
  check_strategy(options);
  if (options.strategy == Strategy::paper) {
    throw UserError(
        "strategy \"paper\" searches for one limit: a frontier is found by \"default\"");
  }
  if (!options.rewrite) return FissionSearch(graph, profile, options).find_frontier();
  return RewriteSearch(graph, profile, options).find_frontier();
}

}  // namespace magis
