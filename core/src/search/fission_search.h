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
//
// The whole frontier is found by the same means, for one limit after another; whatever schedule is
// come by on the way counts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "search/archive.h"
#include "search/budget.h"
#include "search/crew.h"
#include "search/exchange_rate.h"
#include "search/monitor.h"
#include "search/objective.h"
#include "search/trial_search.h"
#include "search/trials.h"

namespace magis {

class FissionSearch {
 public:
  // Where `graph` is a rewritten one, `baseline` is the original's, in program order.
  FissionSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options,
                std::optional<Footprint> baseline = {});

  OptimizeResult run();
  std::vector<OptimizeResult> find_frontier();

 private:
  static constexpr std::size_t kBatch = 4;
  static constexpr std::size_t kRaced = 24;

  // ---- the budget; of a frontier's, one limit has a part

  struct Span {  // of the search
    Seconds begin = 0;
    Seconds end = 0;
    int64_t states_begin = 0;
    int64_t states_end = 0;  // evaluated by then; huge if there is no bound
    Seconds share(double share) const { return share * (end - begin); }
  };
  Span whole_span() const;
  Seconds left() const { return span_.end - monitor_.elapsed(); }
  int64_t states_left() const { return span_.states_end - monitor_.evaluated(); }
  // The share of the span that is used up, in time or in states.
  double used() const;
  bool stopped() const { return monitor_.interrupted() || left() <= 0 || states_left() <= 0; }
  bool done() const { return stopped() || is_perfect(); }
  bool is_perfect() const;
  StopReason stop_reason() const;
  Allowance allowance(double share, std::size_t count, double patience) const;

  // ---- batches

  struct Task {
    Trial* trial;
    Allowance allowance;
  };
  void search(const std::vector<Task>& batch);
  std::vector<Task> short_batch(std::vector<Trial>& trials, std::size_t count);
  const KnownOrders* known_orders(const Trial& trial) const;
  void take(Trial& trial, SearchedTrial found);
  void set_best(OptimizeResult result, const std::vector<FissionRegion>& regions,
                std::shared_ptr<const Graph> split);

  // ---- one limit

  LowerBound find_bound() const;
  void reorder();
  void search_as_asked();
  void search_trials();
  void search_regions(std::vector<Trial>& searched_trials);
  std::function<bool()> stop_looking(Seconds seconds);
  TrialMaker make_trials();
  std::vector<std::vector<Trial>> all_trials(const TrialMaker& maker) const;
  std::vector<Trial> sieved(std::vector<std::vector<Trial>> groups, Seconds until);
  void take_plain(const std::vector<Trial>& counted);
  void sort_by_promise(std::vector<Trial>& trials) const;
  void race(std::vector<Trial>& waiting, std::vector<Trial>& searched_trials, std::size_t most);
  void move_nearest_first(std::vector<Trial>& trials) const;
  bool is_near_best(const Trial& trial, double times) const;
  bool is_rival(const Trial& trial) const;
  void extend(const TrialMaker& maker, std::vector<Trial>& trials);
  void search_again(std::vector<Trial>& trials, int idle_rounds);
  void search_all(std::vector<Trial> trials);
  void keep_searched(std::vector<Trial>& trials) const;
  void move_rival_up(std::vector<Trial>& trials) const;
  Cost cost_of_baseline() const;

  // ---- the frontier (frontier_search.cpp)

  struct Point {
    Cost cost;
    Decisions decisions;
    std::vector<FissionRegion> regions;
    std::shared_ptr<const Graph> split;
  };
  std::vector<Trial> frontier_trials();
  void aim_at(const Limit& limit);
  bool search_limit(const Limit& limit, const std::vector<Trial>& trials);
  void archive(SearchedTrial& found, const Trial& trial);
  std::vector<OptimizeResult> frontier_plans();
  OptimizeResult frontier_plan(Point point) const;

  const Graph& source_;
  const DeviceProfile& profile_;
  const std::optional<Footprint> baseline_;
  Footprint program_order_ = {};  // of the graph that is searched
  Picoseconds fastest_ = 0;       // of that and of all regions looked at, everything run once
  bool looked_at_all_ = false;    // the regions
  OptimizeOptions options_;       // the limit changes where a frontier is looked for
  const CostTable costs_;
  Objective objective_;
  Monitor monitor_;  // before all that takes time
  const Crew crew_;
  const std::unique_ptr<const FissionGround> ground_;  // null: nothing may run in parts
  const LowerBound bound_;
  const TrialSearch searcher_;
  const Seconds cpu_start_ = process_seconds();
  Span span_;
  uint64_t round_ = 0;  // other random numbers in each
  std::optional<ExchangeRate> rate_;
  OptimizeResult best_;
  Cost best_cost_;
  // By regions, whatever their parts.
  std::vector<std::pair<std::vector<FissionRegion>, KnownOrders>> known_;
  bool archives_ = false;
  bool improved_ = false;  // the frontier, since it was last asked
  Archive<Point> frontier_;
};

}  // namespace magis
