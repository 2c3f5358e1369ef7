// Fission around the scheduling search: which regions run in parts, and in parts of what length.
//
// The graph with its losses opened is where regions are looked for; one that is taken is split in
// the graph given, with only those losses opened that the region holds. A search of one split graph
// finds most of what it will find within a fraction of a second, so many are searched, each until
// its patience runs out. Every (region, part length) is first counted as it is, in program order;
// the most promising one of the region that saves most is searched at once, beside the graph
// without regions, then the others in the order of their promise. The best gets one region more,
// beside the others or inside one, chosen by what is live at its peak, as long as that helps. What
// is left of the budget goes to the best few, searched again and again with other random numbers,
// and to the best of all, from where it stands.
//
// Searches go in batches of a size that does not depend on the number of threads, and what they
// find is taken in their order: so the plan does not depend on it either.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "magis/base/error.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "magis/transform/opening.h"
#include "search/budget.h"
#include "search/crew.h"
#include "search/exchange_rate.h"
#include "search/monitor.h"
#include "search/objective.h"
#include "search/schedule_search.h"
#include "search/trial_search.h"
#include "search/trials.h"

namespace magis {
namespace {

// Losses count in their opened form: that is what a region would hold.
LowerBound lower_bound_of(const OpenedGraph& opened, const DeviceProfile& profile, bool swap) {
  const CostTable costs = make_cost_table(opened.graph, profile);
  LowerBound bound = lower_bound(opened.graph, costs, {.fission = true, .swap = swap});
  if (bound.op.valid()) bound.op = opened.origin[bound.op];
  return bound;
}

class FissionSearch {
 public:
  FissionSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : source_(graph),
        profile_(profile),
        options_(options),
        costs_(make_cost_table(graph, profile)),
        objective_(options.limit, costs_.persistent),
        monitor_(options, costs_.persistent),
        crew_(options.threads),
        ground_(options.fission ? std::make_unique<FissionGround>(graph, profile) : nullptr),
        bound_(find_bound()),
        searcher_(graph, costs_, profile, options, bound_, ground_.get()) {}

  OptimizeResult run() {
    start();
    if (options_.batch_parts > 0) {
      search_as_asked();
    } else if (!done()) {
      search_trials();
    }
    best_.states_evaluated = monitor_.evaluated();
    best_.states_scored = monitor_.scored();
    best_.stop_reason = monitor_.interrupted()        ? StopReason::interrupted
                        : monitor_.left() <= 0        ? StopReason::time_budget
                        : monitor_.states_left() <= 0 ? StopReason::state_budget
                                                      : StopReason::converged;
    best_.wall_seconds = monitor_.elapsed();
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
  static constexpr std::size_t kBatch = 4;
  static constexpr std::size_t kRaced = 24;
  static constexpr int kHopeless = 5;  // of them in a row that lead nowhere end the race
  static constexpr std::size_t kExtended = 8;
  static constexpr int kExtensions = 4;
  static constexpr std::size_t kFinalists = 3;
  static constexpr int kIdleRounds = 4;  // without success end the search

  bool done() const { return monitor_.stopped() || is_perfect(); }
  bool is_perfect() const {
    return best_.met && objective_.limits_memory() &&
           best_cost_.time <= to_picoseconds(best_.baseline.seconds);
  }
  Seconds share(double of_budget) const { return of_budget * options_.time_budget; }

  LowerBound find_bound() const {
    const bool swap = options_.host_memory.value_or(profile_.host_memory) > 0;
    return ground_ ? lower_bound_of(ground_->opened(), profile_, swap)
                   : lower_bound(source_, costs_, {.swap = swap});
  }

  // ---- batches

  // Of a batch of `count`.
  Allowance allowance(Seconds seconds, std::size_t count, double patience) const {
    Allowance allowance{.seconds = std::max(0.0, std::min(seconds, monitor_.left())),
                        .patience = patience};
    if (options_.state_budget > 0) {
      const auto parts = static_cast<int64_t>(count);
      allowance.states = std::max<int64_t>(1, (monitor_.states_left() + parts - 1) / parts);
    }
    return allowance;
  }
  Allowance short_allowance(std::size_t count) const {
    return allowance(share(kShortShare), count, 1);
  }

  struct Task {
    Trial* trial;
    Allowance allowance;
  };
  void search(const std::vector<Task>& batch) {
    std::vector<std::optional<SearchedTrial>> found(batch.size());
    monitor_.begin(batch.size());
    const auto run = [&](std::size_t i) {
      if (i > 0 && monitor_.stopped()) return;
      Allowance allowance = batch[i].allowance;
      allowance.seconds = std::max(0.0, std::min(allowance.seconds, monitor_.left()));
      found[i] = searcher_.search(*batch[i].trial, allowance, [&, i](const Progress& progress) {
        return monitor_.report(i, progress);
      });
    };
    crew_.run(batch.size(), run, [&] { monitor_.tell(); });
    monitor_.begin(0);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (found[i]) take(*batch[i].trial, *std::move(found[i]));
    }
  }

  // What a search found, if it is better than what is known.
  void take(Trial& trial, SearchedTrial found) {
    monitor_.count(found.result.states_scored, found.result.states_evaluated);
    const Cost cost = cost_of(found.result);
    if (rate_) rate_->learn(trial.plain, cost);
    if (!trial.searched || objective_.better(cost, trial.cost)) {
      trial.searched = true;
      trial.cost = cost;
      trial.hotspots = std::move(found.hotspots);
      trial.best = found.result.decisions;
    }
    if (objective_.better(cost, best_cost_)) {
      set_best(std::move(found.result), trial.regions, std::move(found.graph));
    }
  }

  static Cost cost_of(const OptimizeResult& result) {
    return {result.found.transient_peak, to_picoseconds(result.found.seconds)};
  }
  void set_best(OptimizeResult result, const std::vector<FissionRegion>& regions,
                std::optional<Graph> split) {
    result.baseline = best_.baseline;
    result.bound = bound_;
    result.split = std::move(split);
    result.regions = regions;
    best_cost_ = cost_of(result);
    best_ = std::move(result);
    monitor_.set_best(best_cost_, best_.met);
  }

  // ---- strategy

  // A better order alone, which takes no time to find: what needs no loop gets none.
  void start() {
    OptimizeOptions options = options_;
    options.time_budget = 0;
    options.state_budget =
        options_.state_budget > 0 ? std::min<int64_t>(8, options_.state_budget) : 8;
    monitor_.begin(1);
    options.progress = [&](const Progress& progress) { return monitor_.report(0, progress); };
    OptimizeResult result = search_schedule(source_, costs_, options, {.bound = &bound_});
    monitor_.begin(0);
    monitor_.count(result.states_scored, result.states_evaluated);
    best_.baseline = result.baseline;
    set_best(std::move(result), {}, std::nullopt);
  }

  // The one region that the user named, whatever it costs.
  void search_as_asked() {
    Trial trial{.regions = {ground_->batch_region(options_.batch_parts)}};
    const std::variant<Graph, std::string> made = ground_->split(trial.regions);
    if (const auto* why = std::get_if<std::string>(&made)) {
      throw UserError("the batch cannot run in parts: " + *why);
    }
    std::optional<SearchedTrial> found =
        searcher_.search(trial, allowance(monitor_.left(), 1, 0),
                         [&](const Progress& progress) { return monitor_.report(0, progress); });
    MAGIS_CHECK(found.has_value(), "what has been split once is split again");
    monitor_.count(found->result.states_scored, found->result.states_evaluated);
    set_best(std::move(found->result), trial.regions, std::move(found->graph));
  }

  void search_trials() {
    ExchangeRate rate(objective_, to_picoseconds(best_.baseline.seconds));
    rate_ = &rate;
    std::vector<Trial> searched_trials;
    searched_trials.push_back({.unsplit = true, .plain = cost_of_baseline()});
    if (ground_) {
      search_regions(searched_trials);
    } else {
      search({{&searched_trials[0], allowance(monitor_.left(), 1, 1)}});
    }
    if (done()) return;
    const std::vector<Trial> all = searched_trials;
    search_again(searched_trials);
    search_all(all);
  }

  Cost cost_of_baseline() const {
    return {best_.baseline.transient_peak, to_picoseconds(best_.baseline.seconds)};
  }

  // `searched_trials` holds the graph without regions.
  void search_regions(std::vector<Trial>& searched_trials) {
    const TrialMaker maker(*ground_);
    std::vector<Trial> waiting;
    std::vector<Task> first;
    if (maker.region_count() > 0) {
      waiting = sieved({maker.trials_of(0)}, monitor_.elapsed() + share(kSieveShare));
    }
    if (!waiting.empty()) first.push_back({&waiting.front(), short_allowance(8)});
    first.push_back({&searched_trials[0], allowance(share(kUnsplitShare), 4, 1)});
    search(first);
    if (!waiting.empty()) move_front(1, waiting, searched_trials);
    if (done()) return;
    std::ranges::move(sieved(other_trials(maker), monitor_.elapsed() + share(kSieveShare)),
                      std::back_inserter(waiting));
    race(waiting, searched_trials);
    extend(maker, searched_trials);
  }

  static void move_front(std::size_t count, std::vector<Trial>& from, std::vector<Trial>& to) {
    const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
    std::move(from.begin(), end, std::back_inserter(to));
    from.erase(from.begin(), end);
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
    // In turns, so that when time is short all groups have been looked at in some length.
    constexpr std::size_t kStride = 5;
    std::size_t longest = 0;
    for (const auto& group : groups) longest = std::max(longest, group.size());
    std::vector<Trial> trials;
    for (std::size_t first = 0; first < kStride; ++first) {
      for (std::vector<Trial>& group : groups) {
        for (std::size_t t = first; t < group.size(); t += kStride) {
          trials.push_back(std::move(group[t]));
        }
      }
    }
    std::vector<std::optional<Cost>> costs(trials.size());
    const auto count = [&](std::size_t t) {
      if (monitor_.interrupted() || monitor_.elapsed() > until) return;
      costs[t] = searcher_.plain_cost(trials[t]);
    };
    crew_.run(trials.size(), count, [&] { monitor_.tell(); });
    std::vector<Trial> counted;
    for (std::size_t t = 0; t < trials.size(); ++t) {
      if (!costs[t]) continue;
      monitor_.count(0, 1);
      trials[t].plain = *costs[t];
      if (costs[t]->time <= objective_.time_limit()) counted.push_back(std::move(trials[t]));
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
    for (std::size_t t = 0; t < kRaced && !waiting.empty() && hopeless < kHopeless; t += kBatch) {
      if (done() || monitor_.elapsed() > share(kRaceShare)) return;
      sort_by_promise(waiting);
      const std::size_t count = std::min(kBatch, waiting.size());
      std::vector<Task> batch;
      for (std::size_t i = 0; i < count; ++i) {
        batch.push_back({&waiting[i], short_allowance(2 * (kRaced - t))});
      }
      search(batch);
      for (std::size_t i = 0; i < count; ++i) {
        hopeless = is_near_best(waiting[i], 4) ? 0 : hopeless + 1;
      }
      move_front(count, waiting, searched_trials);
    }
  }

  // Another search may make it the best: within 4 % of the least memory or 0.5 % of the least time,
  // or `times` that.
  bool is_near_best(const Trial& trial, double times) const {
    constexpr double kMemory = 0.04;
    constexpr double kTime = 0.005;
    if (!trial.searched) return false;
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
      if (trials.empty() || done() || monitor_.elapsed() > share(kExtensionShare)) return;
      const Cost before = trials.front().cost;
      std::vector<Trial> extended =
          sieved({maker.extensions(trials.front())}, options_.time_budget);
      if (extended.size() > kExtended) extended.resize(kExtended);
      std::vector<Task> batch;
      for (Trial& trial : extended) batch.push_back({&trial, short_allowance(4 * kExtended)});
      search(batch);
      move_front(extended.size(), extended, trials);
      keep_searched(trials);
      if (trials.front().cost == before) return;
    }
  }

  // The best few from the start, and the best of all from where it stands.
  void search_again(std::vector<Trial>& trials) {
    int idle = 0;
    for (uint64_t round = 1; idle < kIdleRounds && !done(); ++round) {
      keep_searched(trials);
      if (trials.size() > kFinalists) trials.resize(kFinalists);
      if (trials.empty()) return;
      const Cost before = best_cost_;
      Allowance again = allowance(monitor_.left(), kFinalists + 1, 2);
      again.round = round;
      Trial best = trials.front();
      std::vector<Task> batch{{&best, again}};
      batch.front().allowance.goes_on = true;
      for (Trial& trial : trials) {
        if (&trial == &trials.front() || is_near_best(trial, 1)) batch.push_back({&trial, again});
      }
      search(batch);
      if (objective_.better(best.cost, trials.front().cost)) trials.front() = std::move(best);
      idle = best_cost_ == before ? idle + 1 : 0;
    }
  }

  // What was searched shortly and left behind, while the limit is not met: the time is there.
  void search_all(std::vector<Trial> trials) {
    for (std::size_t t = 0; t < trials.size(); t += kBatch) {
      if (done() || objective_.met(best_cost_)) return;
      const std::size_t remaining = trials.size() - t;
      const std::size_t count = std::min(kBatch, remaining);
      std::vector<Task> batch;
      for (std::size_t i = t; i < t + count; ++i) {
        const Seconds seconds = monitor_.left() * static_cast<double>(std::min(kBatch, count)) /
                                static_cast<double>(remaining);
        batch.push_back({&trials[i], allowance(seconds, remaining, 1)});
      }
      search(batch);
    }
  }

  // Best first, without those that could not be searched.
  void keep_searched(std::vector<Trial>& trials) const {
    std::erase_if(trials, [](const Trial& trial) { return !trial.searched; });
    std::ranges::stable_sort(
        trials, [&](const Trial& a, const Trial& b) { return objective_.better(a.cost, b.cost); });
  }

  const Graph& source_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const CostTable costs_;
  const Objective objective_;
  Monitor monitor_;  // before all that takes time
  const Crew crew_;
  const std::unique_ptr<const FissionGround> ground_;  // null: nothing may run in parts
  const LowerBound bound_;
  const TrialSearch searcher_;
  const Seconds cpu_start_ = process_seconds();
  ExchangeRate* rate_ = nullptr;
  OptimizeResult best_;
  Cost best_cost_;
};

}  // namespace

LowerBound lower_bound_with_fission(const Graph& graph, const DeviceProfile& profile, bool swap) {
  return lower_bound_of(open(graph, openable_operators(graph)), profile, swap);
}

OptimizeResult optimize(const Graph& graph, const DeviceProfile& profile,
                        const OptimizeOptions& options) {
  return FissionSearch(graph, profile, options).run();
}

}  // namespace magis
