// The optimizer: least time under a memory limit, or least memory under a time limit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/analysis/region.h"
#include "magis/schedule/decisions.h"
#include "magis/simulate/profile.h"
#include "magis/simulate/simulate.h"

namespace magis {

struct Limit {
  enum class Kind : uint8_t { memory, latency };
  Kind kind = Kind::memory;
  Bytes bytes = 0;      // memory: persistent + transient
  Seconds seconds = 0;  // latency
};

enum class StopReason : uint8_t {
  converged,  // nothing left to try
  time_budget,
  state_budget,
  interrupted,  // the progress callback asked to stop
};
std::string_view to_text(StopReason reason);

struct Progress {
  Bytes best_peak;
  Seconds best_seconds;
  bool met;
  int64_t states_scored;
  int64_t states_evaluated;
  Seconds elapsed;
  Bytes bound = 0;  // no plan of the graph stays below it
};

enum class Strategy : uint8_t {
  standard,
  paper,  // the search that the MAGIS paper describes (section 6.2, Alg. 3)
};

// From "default" or "paper"; throws UserError.
Strategy parse_strategy(std::string_view name);

// What the paper's ablations change (its section 7.3); for Strategy::paper alone.
struct PaperOptions {
  bool random_fission = false;        // regions anywhere, instead of the fission tree's
  bool naive_schedule_rules = false;  // matched on the whole graph, not only at hotspots
  int max_level = 4;                  // L of Alg. 1
  bool operator==(const PaperOptions&) const = default;
};

struct OptimizeOptions {
  Limit limit;
  Seconds time_budget = 10;  // decides after which round to stop
  int64_t state_budget = 0;  // evaluated states; 0: no bound
  uint64_t seed = 0;
  // About the most that states waiting to be looked at take.
  Bytes search_memory = Bytes{1} << 30;
  int threads = 1;        // they change how long the search takes, and nothing else
  bool fission = true;    // regions of the graph may run in parts
  bool recompute = true;  // operators may run again
  bool rewrite = true;    // operators may be replaced by others that compute the same
  std::vector<std::string> without_rules = {};  // rewrite rules that are left out, by name
  // Regions may not add up sums part by part, which would round differently: those whose results
  // are all put side by side remain.
  bool exact = false;
  // The largest region along the axis of the batch runs in so many parts, whatever that costs; 0:
  // as the search decides. A number that does not divide the batch makes a shorter last part.
  int64_t batch_parts = 0;
  // What swapped tensors may take on the host; nothing: as much as the profile has; 0: nothing is
  // swapped.
  std::optional<Bytes> host_memory = {};
  Strategy strategy = Strategy::standard;  // a frontier is found by this one alone
  PaperOptions paper = {};
  // Called between rounds on the calling thread; false stops the search, the best plan so far is
  // returned.
  std::function<bool(const Progress&)> progress;
};

// Where the time of the paper's search goes (its Figure 15), in seconds; of other searches all 0.
struct PhaseSeconds {
  Seconds transform = 0;  // trees, mutations, rewrites, split graphs
  Seconds schedule = 0;   // orders around what changed
  Seconds simulate = 0;   // peak and time of states
  Seconds hash = 0;       // whether a state was seen before
};

struct OptimizeResult {
  // The graph given after its rewrites, which its meta names; null: as it is.
  std::shared_ptr<const Graph> rewritten = {};
  // The graph that the decisions are for: the rewritten one, with loops where regions run in parts.
  // Null: the one given, as it is.
  std::shared_ptr<const Graph> split = {};
  std::vector<FissionRegion> regions;  // of the rewritten graph, with its losses opened
  Decisions decisions;
  Footprint baseline;  // program order of the graph given
  Footprint found;
  LowerBound bound;  // of the rewritten graph
  bool met = false;
  StopReason stop_reason = StopReason::converged;
  int64_t states_scored = 0;
  int64_t states_evaluated = 0;
  int64_t states_repeated = 0;  // of the paper's search: made, and dropped as seen before
  PhaseSeconds phases = {};
  Seconds wall_seconds = 0;
  Seconds cpu_seconds = 0;
  int recomputed = 0;  // operators that run more than once
  int swapped = 0;     // uses before which a tensor was on the host
};

// What no plan of the graph stays below, whatever its regions, order, recomputation and, if it may,
// swapping.
LowerBound lower_bound_with_fission(const Graph& graph, const DeviceProfile& profile,
                                    bool swap = false);
// Never worse than program order, unless batch_parts asks for it. Deterministic for a given seed
// and number of rounds. Throws UserError if the batch cannot run in batch_parts parts, naming what
// stands in the way, and if options do not go with the strategy.
OptimizeResult optimize(const Graph& graph, const DeviceProfile& profile,
                        const OptimizeOptions& options);
// Plans from the fastest to the smallest, each slower and smaller than the one before; at most one
// for every two per cent of the peak. options.limit and options.batch_parts do not count.
std::vector<OptimizeResult> find_frontier(const Graph& graph, const DeviceProfile& profile,
                                          const OptimizeOptions& options);
// optimize() without fission and rewrites, under any costs.
OptimizeResult optimize_schedule(const Graph& graph, const CostTable& costs,
                                 const OptimizeOptions& options);

}  // namespace magis
