// The search for one limit: which regions, in how many parts.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "magis/transform/opening.h"
#include "search/fission_search.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

// Shares of the budget. Until the race's the single regions are searched, until the extensions'
// those with one more.
constexpr double kUnsplitShare = 0.15;
constexpr double kSieveShare = 0.12;
constexpr double kRaceShare = 0.5;
constexpr double kExtensionShare = 0.75;
constexpr double kFirstPatience = 0.25;  // the others are waiting
constexpr int kHopeless = 5;             // of them in a row that lead nowhere end the race
constexpr int kExtensions = 4;
constexpr std::size_t kFinalists = 3;
constexpr int kIdleRounds = 4;  // without success end the search

bool is_among(const Trial& trial, const std::vector<Trial>& trials) {
  return std::ranges::any_of(
      trials, [&](const Trial& other) { return !other.unsplit && other.regions == trial.regions; });
}

void move_front(std::size_t count, std::vector<Trial>& from, std::vector<Trial>& to) {
  const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
  std::move(from.begin(), end, std::back_inserter(to));
  from.erase(from.begin(), end);
}

}  // namespace

void FissionSearch::search_trials() {
  rate_.emplace(objective_, to_picoseconds(best_.baseline.seconds));
  std::vector<Trial> searched_trials;
  searched_trials.push_back({.unsplit = true, .plain = cost_of_baseline()});
  if (ground_) {
    search_regions(searched_trials);
  } else {
    search({{&searched_trials[0], allowance(1, 1, 1)}});
  }
  if (done()) return;
  const std::vector<Trial> all = searched_trials;
  search_again(searched_trials, kIdleRounds);
  search_all(all);
}

Cost FissionSearch::cost_of_baseline() const {
  return {program_order_.transient_peak, to_picoseconds(program_order_.seconds)};
}

// `searched_trials` holds the graph without regions.
void FissionSearch::search_regions(std::vector<Trial>& searched_trials) {
  // Even of a long budget not much goes by before anything is searched.
  const Seconds at_once = std::min(span_.share(kSieveShare), std::max(0.3, span_.share(0.001)));
  std::vector<Trial> waiting = sieved({first_trials(*ground_, stop_looking(at_once))},
                                      monitor_.elapsed() + span_.share(kSieveShare));
  std::vector<Task> first;
  if (!waiting.empty()) {
    first = short_batch(waiting, 1);
    first.front().allowance.patience = kFirstPatience;
  }
  first.push_back({&searched_trials[0], allowance(kUnsplitShare, 2, 1)});
  search(first);
  if (!waiting.empty()) move_front(1, waiting, searched_trials);
  if (done()) return;
  const TrialMaker maker = make_trials();
  std::vector<std::vector<Trial>> others = all_trials(maker);
  for (std::vector<Trial>& group : others) {
    std::erase_if(group, [&](const Trial& trial) {
      return is_among(trial, searched_trials) || is_among(trial, waiting);
    });
  }
  std::ranges::move(sieved(std::move(others), monitor_.elapsed() + span_.share(kSieveShare)),
                    std::back_inserter(waiting));
  looked_at_all_ = true;
  race(waiting, searched_trials, kRaced);
  extend(maker, searched_trials);
}

// For regions, after so long: asked often, it calls back now and then.
std::function<bool()> FissionSearch::stop_looking(Seconds seconds) {
  constexpr Seconds kTelling = 0.02;
  const Seconds begin = monitor_.elapsed();
  return [this, until = begin + seconds, told = begin]() mutable {
    const Seconds now = monitor_.elapsed();
    if (now - told > kTelling) {
      monitor_.tell();
      told = now;
    }
    return monitor_.interrupted() || now > until;
  };
}

TrialMaker FissionSearch::make_trials() {
  return TrialMaker(*ground_, stop_looking(span_.share(kSieveShare)));
}

// Every region in every number of parts, and masks as bits alone.
std::vector<std::vector<Trial>> FissionSearch::all_trials(const TrialMaker& maker) const {
  std::vector<std::vector<Trial>> trials;
  if (!openable_masks(source_).empty()) trials.emplace_back(1);
  for (std::size_t r = 0; r < maker.region_count(); ++r) trials.push_back(maker.trials_of(r));
  return trials;
}

// Counts trials as they are, until `until`; those that may meet the limit, most promising first.
std::vector<Trial> FissionSearch::sieved(std::vector<std::vector<Trial>> groups, Seconds until) {
  // In turns, so that when time is short all groups have been looked at in some length.
  constexpr std::size_t kStride = 5;
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
    monitor_.tell();
    if (monitor_.interrupted() || monitor_.elapsed() > until) return;
    costs[t] = searcher_.plain_cost(trials[t]);
  };
  crew_.run(trials.size(), count, [&] { monitor_.tell(); });
  std::vector<Trial> counted;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    if (!costs[t]) continue;
    monitor_.count(0, 1);
    trials[t].plain = *costs[t];
    fastest_ = std::min(fastest_, costs[t]->time);
    if (costs[t]->time <= objective_.time_limit()) counted.push_back(std::move(trials[t]));
  }
  take_plain(counted);
  sort_by_promise(counted);
  return counted;
}

// The best of them as it is, in program order, if it is better than what is known: regions alone
// may save a lot, and it is known at once.
void FissionSearch::take_plain(const std::vector<Trial>& counted) {
  const auto best = std::ranges::min_element(
      counted, [&](const Trial& a, const Trial& b) { return objective_.better(a.plain, b.plain); });
  if (best == counted.end() || !objective_.better(best->plain, best_cost_)) return;
  std::optional<Graph> made = searcher_.split(*best);
  if (!made) return;
  auto graph = std::make_shared<const Graph>(*std::move(made));
  const CostTable costs = make_cost_table(*graph, profile_);
  OptimizeResult result = result_of(*graph, costs, program_order(*graph));
  result.met = objective_.met(best->plain);
  set_best(std::move(result), best->regions, std::move(graph));
}

void FissionSearch::sort_by_promise(std::vector<Trial>& trials) const {
  std::ranges::stable_sort(trials, {},
                           [&](const Trial& trial) { return rate_->promise(trial.plain); });
}

// Searches the most promising of `waiting`, at most `most`, which move to `searched_trials`; the
// promise of the others follows what the searches show.
void FissionSearch::race(std::vector<Trial>& waiting, std::vector<Trial>& searched_trials,
                         std::size_t most) {
  int hopeless = 0;
  for (std::size_t t = 0; t < most && !waiting.empty() && hopeless < kHopeless; t += kBatch) {
    if (done() || used() > kRaceShare) return;
    sort_by_promise(waiting);
    if (!objective_.met(best_cost_)) move_nearest_first(waiting);
    const std::size_t count = std::min(kBatch, waiting.size());
    search(short_batch(waiting, count));
    for (std::size_t i = 0; i < count; ++i) {
      hopeless = is_near_best(waiting[i], 4) ? 0 : hopeless + 1;
    }
    move_front(count, waiting, searched_trials);
  }
}

// Promise goes by what time has bought so far, and may be wrong about what it will buy: as long as
// nothing meets the limit, the trial that is nearest to it as it is has its turn, too.
void FissionSearch::move_nearest_first(std::vector<Trial>& trials) const {
  const auto nearest = std::ranges::min_element(
      trials, [&](const Trial& a, const Trial& b) { return objective_.better(a.plain, b.plain); });
  std::rotate(trials.begin(), nearest, nearest + 1);
}

// Another search may make it the best: within 4 % of the least memory or 0.5 % of the least time,
// or `times` that.
bool FissionSearch::is_near_best(const Trial& trial, double times) const {
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

// It does not keep the limit yet, but where it does, it is likely to be better than the best: one
// that keeps it at any price, in parts of one row, would win otherwise over what was not searched
// for long enough.
bool FissionSearch::is_rival(const Trial& trial) const {
  return trial.searched && !objective_.met(trial.cost) && objective_.met(best_cost_) &&
         rate_->promise(trial.cost) < rate_->promise(best_cost_);
}

// Behind the first of the searched `trials`, that rival which promises most.
void FissionSearch::move_rival_up(std::vector<Trial>& trials) const {
  const auto promise = [&](const Trial& trial) {
    return is_rival(trial) ? rate_->promise(trial.cost) : HUGE_VAL;
  };
  const auto rival = std::ranges::min_element(trials, {}, promise);
  if (rival == trials.end() || !is_rival(*rival) || rival == trials.begin()) return;
  std::rotate(trials.begin() + 1, rival, rival + 1);
}

// One region more for the best trial, as long as that makes it better.
void FissionSearch::extend(const TrialMaker& maker, std::vector<Trial>& trials) {
  for (int round = 0; round < kExtensions; ++round) {
    keep_searched(trials);
    if (trials.empty() || done() || used() > kExtensionShare) return;
    const Cost before = trials.front().cost;
    std::vector<Trial> extended = sieved({maker.extensions(trials.front())}, span_.end);
    if (extended.size() > kBatch) extended.resize(kBatch);
    search(short_batch(extended, extended.size()));
    move_front(extended.size(), extended, trials);
    keep_searched(trials);
    if (trials.front().cost == before) return;
  }
}

// The best few from what was constructed, and the best of all from where it stands and with orders
// of its own; until `idle_rounds` have brought nothing.
void FissionSearch::search_again(std::vector<Trial>& trials, int idle_rounds) {
  for (int idle = 0; idle < idle_rounds && !done();) {
    ++round_;
    keep_searched(trials);
    move_rival_up(trials);
    if (trials.size() > kFinalists) trials.resize(kFinalists);
    if (trials.empty()) return;
    const Cost before = best_cost_;
    Allowance again = allowance(1, kFinalists + 2, 2);
    again.start = Allowance::Start::constructed;
    const bool reorders = !std::exchange(trials.front().reordered, true);
    Trial best = trials.front();
    Trial anew = trials.front();
    std::vector<Task> batch{{&best, again}};
    batch.back().allowance.start = Allowance::Start::best;
    if (reorders) {
      batch.push_back({&anew, again});
      batch.back().allowance.start = Allowance::Start::anew;
      batch.back().allowance.reorders = true;
    }
    for (Trial& trial : trials) {
      const bool may_win = is_near_best(trial, 1) || is_rival(trial);
      if (&trial == &trials.front() || may_win) batch.push_back({&trial, again});
    }
    search(batch);
    for (const Trial& other : {best, anew}) {
      if (objective_.better(other.cost, trials.front().cost)) trials.front() = other;
    }
    idle = best_cost_ == before ? idle + 1 : 0;
  }
}

// What was searched shortly and left behind, while the limit is not met: the time is there.
void FissionSearch::search_all(std::vector<Trial> trials) {
  for (std::size_t t = 0; t < trials.size(); t += kBatch) {
    if (done() || objective_.met(best_cost_)) return;
    const std::size_t remaining = trials.size() - t;
    const std::size_t count = std::min(kBatch, remaining);
    std::vector<Task> batch;
    for (std::size_t i = t; i < t + count; ++i) {
      Allowance share = allowance(1, remaining, 1);
      share.seconds *= static_cast<double>(count) / static_cast<double>(remaining);
      batch.push_back({&trials[i], share});
    }
    search(batch);
  }
}

// Best first, without those that could not be searched.
void FissionSearch::keep_searched(std::vector<Trial>& trials) const {
  std::erase_if(trials, [](const Trial& trial) { return !trial.searched; });
  std::ranges::stable_sort(
      trials, [&](const Trial& a, const Trial& b) { return objective_.better(a.cost, b.cost); });
}

}  // namespace magis
