// Rewriting around the search for regions and schedules. Rewrites that save time and no memory is
// paid for come first; what they save, memory can be bought with. Those that may cost memory
// (merging what is read at different times) make a graph of their own, if there are any, and so do
// those that save memory for time (splitting what one tensor held): each is searched for a while,
// and the best one for the rest of the budget. Of a frontier, the best one is that of which most
// plans stand.
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
constexpr double kTrialShare = 0.15;   // for each of several graphs
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
    OptimizeResult best = search(graphs_.front(), share_of_trial(0));
    for (std::size_t g = 1; g < graphs_.size(); ++g) {
      OptimizeResult other = search(graphs_[g], share_of_trial(g));
      if (is_better(other, best)) best = std::move(other);
    }
    if (graphs_.size() > 1 && may_go_on()) {
      OptimizeResult last = search(best.rewritten, 1);
      if (is_better(last, best)) best = std::move(last);
    }
    return finished(std::move(best));
  }

  std::vector<OptimizeResult> find_frontier() {
    rewrite();
    if (graphs_.empty()) return FissionSearch(graph_, profile_, remaining(1)).find_frontier();
    std::vector<OptimizeResult> plans = frontier(graphs_.front(), share_of_trial(0));
    for (std::size_t g = 1; g < graphs_.size(); ++g) {
      plans = best_of(std::move(plans), frontier(graphs_[g], share_of_trial(g)));
    }
    if (graphs_.size() > 1 && may_go_on()) {
      const auto plans_of = [&](const std::shared_ptr<const Graph>& graph) {
        return std::ranges::count(plans, graph, &OptimizeResult::rewritten);
      };
      const auto most = std::ranges::max_element(graphs_, {}, plans_of);
      plans = best_of(std::move(plans), frontier(*most, 1));
    }
    for (OptimizeResult& plan : plans) plan = finished(std::move(plan));
    return plans;
  }

 private:
  std::vector<OptimizeResult> frontier(const std::shared_ptr<const Graph>& rewritten,
                                       double share) {
    std::vector<OptimizeResult> plans =
        FissionSearch(*rewritten, profile_, remaining(share), baseline_).find_frontier();
    if (!plans.empty()) count(plans.front());
    for (OptimizeResult& plan : plans) plan.rewritten = rewritten;
    return plans;
  }

  // Of what is left of the budget, for the trial of a graph; all of it if it is the only one.
  double share_of_trial(std::size_t graph) const {
    return graphs_.size() == 1 ? 1 : kTrialShare / (1 - kTrialShare * static_cast<double>(graph));
  }

  void count(const OptimizeResult& found) {
    scored_ += found.states_scored;
    evaluated_ += found.states_evaluated;
    last_stop_ = found.stop_reason;
  }

  bool may_go_on() const {
    return last_stop_ != StopReason::interrupted && seconds_left() > 0 && states_left() > 0;
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
    const RewriteOptions rules{.exact = options_.exact, .without = options_.without_rules};
    const auto is_late = [=] { return now() > until; };
    Rewriter rewriter(graph_, profile_, rules, is_late);
    const bool saves = rewriter.save_time(true);
    const auto plain = std::make_shared<const Graph>(saves ? rewriter.graph() : graph_);
    const bool may_split = rewriter.can_split();
    const Seconds before = rewriter.saved();
    const bool merges =
        rewriter.save_time(false) && rewriter.saved() - before > kWorthATrial * baseline_.seconds;
    if (saves || merges || may_split) graphs_.push_back(plain);
    if (merges) graphs_.push_back(std::make_shared<const Graph>(rewriter.graph()));
    if (!may_split) return;
    Rewriter frugal(*plain, profile_, rules, is_late);
    if (frugal.split_up()) graphs_.push_back(std::make_shared<const Graph>(frugal.graph()));
  }

  OptimizeResult search(const std::shared_ptr<const Graph>& rewritten, double share) {
    OptimizeResult result = FissionSearch(*rewritten, profile_, remaining(share), baseline_).run();
    count(result);
    result.rewritten = rewritten;
    return result;
  }

  bool is_better(const OptimizeResult& a, const OptimizeResult& b) const {
    const Objective objective(options_.limit, make_cost_table(graph_, profile_).persistent);
    const auto cost = [](const OptimizeResult& result) {
      return Cost{result.found.transient_peak, to_picoseconds(result.found.seconds)};
    };
    return objective.better(cost(a), cost(b));
  }

  OptimizeResult finished(OptimizeResult result) const {
    if (!result.split) result.split = result.rewritten;
    result.states_scored = scored_;
    result.states_evaluated = evaluated_;
    result.stop_reason = last_stop_;
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
  std::vector<std::shared_ptr<const Graph>> graphs_;  // none: nothing pays
  int64_t scored_ = 0;
  int64_t evaluated_ = 0;
  StopReason last_stop_ = StopReason::converged;  // of the last search
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
