// Fission around the scheduling search: which regions run in parts, and in parts of what length.
//
// The graph with its losses opened is where regions are looked for; one that is taken is split in
// the graph given, with only those losses opened that the region holds. A search of one split graph
// finds most of what it will find within a fraction of a second, so many are searched, each until
// its patience runs out. Every (region, part length) is first counted as it is, in program order;
// the most promising one of the region that saves most is searched at once, then the graph without
// regions, then the others in the order of their promise. The best gets one region more, beside the
// others or inside one, chosen by what is live at its peak, as long as that helps. What is left of
// the budget goes to the best few, searched again and again with other random numbers.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "magis/transform/opening.h"
#include "search/budget.h"
#include "search/exchange_rate.h"
#include "search/objective.h"
#include "search/patience.h"
#include "search/trials.h"

namespace magis {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point start) {
  return std::chrono::duration<Seconds>(Clock::now() - start).count();
}

// Losses count in their opened form: that is what a region would hold.
LowerBound lower_bound_of(const OpenedGraph& opened, const DeviceProfile& profile, bool swap) {
  const CostTable costs = make_cost_table(opened.graph, profile);
  LowerBound bound = lower_bound(opened.graph, costs, {.fission = true, .swap = swap});
  if (bound.op.valid()) bound.op = opened.origin[bound.op];
  return bound;
}

bool adds_parts(const Graph& graph) {
  return std::ranges::any_of(graph.operators(), [](const Operator& op) {
    const std::string& name = op.info->name;
    return name == "magis.add_part" || name == "magis.mul_part" || name == "magis.add_mm_part" ||
           name == "magis.add_bmm_part";
  });
}

class FissionSearch {
 public:
  FissionSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : source_(graph),
        profile_(profile),
        options_(options),
        costs_(make_cost_table(graph, profile)),
        objective_(options.limit, costs_.persistent),
        ground_(graph, profile) {}

  OptimizeResult run() {
    // A better order alone, which takes no time to find: what needs no loop gets none.
    best_ = searched(source_, costs_, {.seconds = 0, .states = 8});
    best_cost_ = cost_of(best_);
    has_best_ = true;
    best_.bound = lower_bound_of(ground_.opened(), profile_,
                                 options_.host_memory.value_or(profile_.host_memory) > 0);
    if (options_.batch_parts > 0) {
      search_as_asked();
    } else if (!done()) {
      search_regions();
    }
    best_.states_evaluated = evaluated_;
    best_.states_scored = scored_;
    best_.stop_reason = interrupted_  ? StopReason::interrupted
                        : left() <= 0 ? StopReason::time_budget
                        : options_.state_budget > 0 && evaluated_ >= options_.state_budget
                            ? StopReason::state_budget
                            : StopReason::converged;
    best_.wall_seconds = since(start_);
    best_.cpu_seconds = process_seconds() - cpu_start_;
    return std::move(best_);
  }

 private:
  // Shares of the time budget. Until the third of them the single regions are searched, until the
  // fourth those with one more.
  static constexpr double kUnsplitShare = 0.15;
  static constexpr double kSieveShare = 0.12;
  static constexpr double kRaceShare = 0.5;
  static constexpr double kExtensionShare = 0.75;
  static constexpr double kShortShare = 0.05;
  static constexpr std::size_t kRaced = 24;
  static constexpr int kHopeless = 5;  // of them in a row that lead nowhere end the race
  static constexpr std::size_t kExtended = 8;
  static constexpr int kExtensions = 4;
  static constexpr std::size_t kFinalists = 3;
  static constexpr int kIdleRounds = 4;  // without success end the search

  // How much of what is left one search may have, and when it gives up before that.
  struct Allowance {
    Seconds seconds;
    int64_t states = 1;   // one part in so many of the states left
    double patience = 1;  // Patience's factor; 0: endless
    uint64_t round = 0;   // added to the seed
    bool swaps = true;
  };

  // ---- the budget

  Seconds left() const { return options_.time_budget - since(start_); }
  Seconds share(double of_budget) const { return of_budget * options_.time_budget; }
  bool stopped() const {
    return interrupted_ || left() <= 0 ||
           (options_.state_budget > 0 && evaluated_ >= options_.state_budget);
  }
  bool done() const { return stopped() || is_perfect(); }

  // What one search says about itself, as part of the whole.
  bool report(const Progress& inner) {
    if (!options_.progress) return true;
    Progress progress = inner;
    if (has_best_ && objective_.better(best_cost_, cost_of(inner))) {
      progress.best_peak = best_cost_.peak + costs_.persistent;
      progress.best_seconds = to_seconds(best_cost_.time);
      progress.met = best_.met;
    }
    progress.states_scored += scored_;
    progress.states_evaluated += evaluated_;
    progress.elapsed = since(start_);
    interrupted_ = !options_.progress(progress);
    return !interrupted_;
  }

  // One search within the whole, its states counted.
  OptimizeResult searched(const Graph& graph, const CostTable& costs, const Allowance& allowance) {
    OptimizeOptions options = options_;
    options.seed += allowance.round;
    if (!allowance.swaps) options.host_memory = 0;
    options.time_budget = std::max(0.0, std::min(allowance.seconds, left()));
    if (options_.state_budget > 0) {
      const int64_t states = options_.state_budget - evaluated_;
      options.state_budget =
          std::max<int64_t>(1, (states + allowance.states - 1) / allowance.states);
    }
    Patience patience(objective_, allowance.patience);
    options.progress = [&](const Progress& progress) {
      return report(progress) && (allowance.patience == 0 ||
                                  patience.lasts(cost_of(progress), progress.states_evaluated));
    };
    OptimizeResult result = optimize_schedule(graph, costs, options);
    evaluated_ += result.states_evaluated;
    scored_ += result.states_scored;
    return result;
  }

  // ---- results

  static Cost cost_of(const OptimizeResult& result) {
    return {result.found.transient_peak, to_picoseconds(result.found.seconds)};
  }
  Cost cost_of(const Progress& progress) const {
    return {progress.best_peak - costs_.persistent, to_picoseconds(progress.best_seconds)};
  }
  bool is_perfect() const {
    return best_.met && objective_.limits_memory() &&
           best_cost_.time <= to_picoseconds(best_.baseline.seconds);
  }
  void offer(OptimizeResult result, const std::vector<FissionRegion>& regions,
             std::optional<Graph> split) {
    if (!objective_.better(cost_of(result), best_cost_)) return;
    result.baseline = best_.baseline;
    result.bound = best_.bound;
    result.split = std::move(split);
    result.regions = regions;
    best_cost_ = cost_of(result);
    best_ = std::move(result);
  }

  // ---- trials

  // The one region that the user named, whatever it costs.
  void search_as_asked() {
    Trial trial{.regions = {ground_.batch_region(options_.batch_parts)}};
    const OptimizeResult unsplit = std::move(best_);
    best_ = {};
    has_best_ = false;
    std::variant<Graph, std::string> made = ground_.split(trial.regions);
    if (const auto* why = std::get_if<std::string>(&made)) {
      throw UserError("the batch cannot run in parts: " + *why);
    }
    Graph graph = std::get<Graph>(std::move(made));
    OptimizeResult result =
        searched(graph, make_cost_table(graph, profile_), {.seconds = left(), .patience = 0});
    result.baseline = unsplit.baseline;
    result.bound = unsplit.bound;
    result.regions = trial.regions;
    result.split = std::move(graph);
    best_ = std::move(result);
    best_cost_ = cost_of(best_);
  }

  void search_regions() {
    ExchangeRate rate(objective_, to_picoseconds(best_.baseline.seconds));
    rate_ = &rate;
    const TrialMaker maker(ground_);
    std::vector<Trial> searched_trials;
    std::vector<Trial> waiting;
    if (maker.region_count() > 0) {
      waiting = sieved({maker.trials_of(0)}, since(start_) + share(kSieveShare));
    }
    if (!waiting.empty()) {
      search_short(waiting.front(), 8);
      searched_trials.push_back(std::move(waiting.front()));
      waiting.erase(waiting.begin());
    }
    searched_trials.push_back({.unsplit = true, .plain = cost_of_baseline()});
    search(searched_trials.back(), {.seconds = share(kUnsplitShare), .states = 4});
    if (done()) return;
    std::ranges::move(sieved(other_trials(maker), since(start_) + share(kSieveShare)),
                      std::back_inserter(waiting));
    race(waiting, searched_trials);
    extend(maker, searched_trials);
    const std::vector<Trial> all = searched_trials;
    search_again(searched_trials);
    search_all(all);
  }

  Cost cost_of_baseline() const {
    return {best_.baseline.transient_peak, to_picoseconds(best_.baseline.seconds)};
  }

  // Every region but the first, in every number of parts, and masks as bits alone.
  std::vector<std::vector<Trial>> other_trials(const TrialMaker& maker) const {
    std::vector<std::vector<Trial>> trials;
    if (!openable_masks(source_).empty()) trials.emplace_back(1);
    for (std::size_t r = 1; r < maker.region_count(); ++r) trials.push_back(maker.trials_of(r));
    return trials;
  }

  // Counts trials as they are, until `until`; those that may meet the limit, most promising first.
  std::vector<Trial> sieved(std::vector<std::vector<Trial>> groups, Seconds until) {
    std::vector<Trial> counted;
    std::size_t longest = 0;
    for (const auto& group : groups) longest = std::max(longest, group.size());
    // In turns, so that when time is short all groups have been looked at in some length.
    constexpr std::size_t kStride = 5;
    for (std::size_t first = 0; first < kStride; ++first) {
      for (std::vector<Trial>& group : groups) {
        for (std::size_t t = first; t < group.size(); t += kStride) {
          if (interrupted_ || since(start_) > until) break;
          if (count_plain(group[t])) counted.push_back(std::move(group[t]));
        }
      }
    }
    sort_by_promise(counted);
    return counted;
  }
  void sort_by_promise(std::vector<Trial>& trials) const {
    std::ranges::stable_sort(trials, {},
                             [&](const Trial& trial) { return rate_->promise(trial.plain); });
  }

  // Searches the most promising of `waiting`, which move to `searched_trials`; the promise of the
  // others follows what the searches show.
  void race(std::vector<Trial>& waiting, std::vector<Trial>& searched_trials) {
    int hopeless = 0;
    for (std::size_t t = 0; t < kRaced && !waiting.empty() && hopeless < kHopeless; ++t) {
      if (done() || since(start_) > share(kRaceShare)) return;
      sort_by_promise(waiting);
      search_short(waiting.front(), static_cast<int64_t>(2 * (kRaced - t)));
      hopeless = is_near_best(waiting.front(), 4) ? 0 : hopeless + 1;
      searched_trials.push_back(std::move(waiting.front()));
      waiting.erase(waiting.begin());
    }
  }

  // Another search may make it the best: within 4 % of the least memory or 0.5 % of the least time,
  // or `times` that.
  bool is_near_best(const Trial& trial, double times) const {
    constexpr double kMemory = 0.04;
    constexpr double kTime = 0.005;
    Cost handicap = trial.cost;
    if (objective_.limits_memory()) {
      const auto base = static_cast<double>(to_picoseconds(best_.baseline.seconds));
      handicap.time -= static_cast<Picoseconds>(times * kTime * base);
    } else {
      const auto peak = static_cast<double>(trial.cost.peak + costs_.persistent);
      handicap.peak -= static_cast<Bytes>(times * kMemory * peak);
    }
    return !objective_.better(best_cost_, handicap);
  }

  // One region more for the best trial, as long as that makes it better.
  void extend(const TrialMaker& maker, std::vector<Trial>& trials) {
    for (int round = 0; round < kExtensions; ++round) {
      keep_searched(trials);
      if (trials.empty() || done()) return;
      const Cost before = trials.front().cost;
      std::vector<Trial> extended = sieved({maker.extensions(trials.front())}, left());
      if (extended.size() > kExtended) extended.resize(kExtended);
      for (std::size_t t = 0; t < extended.size(); ++t) {
        if (done() || since(start_) > share(kExtensionShare)) break;
        search_short(extended[t], static_cast<int64_t>(4 * (extended.size() - t)));
        trials.push_back(std::move(extended[t]));
      }
      keep_searched(trials);
      if (trials.front().cost == before) return;
    }
  }

  void search_again(std::vector<Trial>& trials) {
    int idle = 0;
    for (uint64_t round = 1; idle < kIdleRounds; ++round) {
      keep_searched(trials);
      if (trials.size() > kFinalists) trials.resize(kFinalists);
      const Cost before = best_cost_;
      for (std::size_t f = 0; f < trials.size(); ++f) {
        if (done()) return;
        if (f > 0 && !is_near_best(trials[f], 1)) break;
        search(trials[f], {.seconds = left(), .states = 4, .patience = 2, .round = round});
      }
      idle = best_cost_ == before ? idle + 1 : 0;
    }
  }

  // What was searched shortly and left behind, while the limit is not met: the time is there.
  void search_all(std::vector<Trial> trials) {
    for (std::size_t t = 0; t < trials.size(); ++t) {
      if (done() || objective_.met(best_cost_)) return;
      const auto remaining = static_cast<int64_t>(trials.size() - t);
      search(trials[t], {.seconds = left() / static_cast<double>(remaining), .states = remaining});
    }
  }

  // Best first, without those that could not be searched.
  void keep_searched(std::vector<Trial>& trials) const {
    std::erase_if(trials, [](const Trial& trial) { return trial.hotspots.empty(); });
    std::ranges::stable_sort(
        trials, [&](const Trial& a, const Trial& b) { return objective_.better(a.cost, b.cost); });
  }

  // A region that types or layouts keep from being split is none.
  std::optional<Graph> split(const Trial& trial) const {
    std::variant<Graph, std::string> made = ground_.split(trial.regions);
    if (!std::holds_alternative<Graph>(made)) return std::nullopt;
    if (options_.exact && adds_parts(std::get<Graph>(made))) return std::nullopt;
    return std::get<Graph>(std::move(made));
  }

  // False if the trial can be no plan within the limit.
  bool count_plain(Trial& trial) {
    const std::optional<Graph> graph = split(trial);
    if (!graph) return false;
    const CostTable costs = make_cost_table(*graph, profile_);
    const std::optional<Program> program = lower(*graph, program_order(*graph));
    const Footprint found = footprint(*graph, *program, costs);
    trial.plain = {found.transient_peak, to_picoseconds(found.seconds)};
    ++evaluated_;
    return trial.plain.time <= objective_.time_limit();
  }

  void search_short(Trial& trial, int64_t states) {
    search(trial, {.seconds = share(kShortShare), .states = states});
  }

  void search(Trial& trial, const Allowance& allowance) {
    if (done()) return;
    std::optional<Graph> graph;
    if (!trial.unsplit) {
      graph = split(trial);
      if (!graph) return;
    }
    const Graph& searched_graph = graph ? *graph : source_;
    const CostTable costs = make_cost_table(searched_graph, profile_);
    OptimizeResult result = searched(searched_graph, costs, allowance);
    if (result.swapped > 0 && result.found.seconds > options_.limit.seconds &&
        !objective_.limits_memory() && !done()) {
      // Its copies may be what it waits for beyond the limit.
      Allowance without = allowance;
      without.swaps = false;
      OptimizeResult other = searched(searched_graph, costs, without);
      if (objective_.better(cost_of(other), cost_of(result))) result = std::move(other);
    }
    const Cost cost = cost_of(result);
    rate_->learn(trial.plain, cost);
    if (trial.hotspots.empty() || objective_.better(cost, trial.cost)) {
      trial.cost = cost;
      trial.hotspots = ground_.hotspots(searched_graph, result.decisions, costs);
    }
    offer(std::move(result), trial.regions, std::move(graph));
  }

  const Clock::time_point start_ = Clock::now();  // before all that takes time
  const Graph& source_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const CostTable costs_;
  const Objective objective_;
  const FissionGround ground_;
  const Seconds cpu_start_ = process_seconds();
  ExchangeRate* rate_ = nullptr;
  OptimizeResult best_;
  Cost best_cost_;
  bool has_best_ = false;
  bool interrupted_ = false;
  int64_t evaluated_ = 0;
  int64_t scored_ = 0;
};

}  // namespace

LowerBound lower_bound_with_fission(const Graph& graph, const DeviceProfile& profile, bool swap) {
  return lower_bound_of(open(graph, openable_operators(graph)), profile, swap);
}

OptimizeResult optimize(const Graph& graph, const DeviceProfile& profile,
                        const OptimizeOptions& options) {
  if (!options.fission) return optimize_schedule(graph, make_cost_table(graph, profile), options);
  return FissionSearch(graph, profile, options).run();
}

}  // namespace magis
