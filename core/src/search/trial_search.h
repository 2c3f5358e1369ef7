// The search of one trial: a graph in which some regions run in parts.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "search/archive.h"
#include "search/schedule_search.h"
#include "search/trials.h"

namespace magis {

// How much a search may take, and when it gives up before that.
struct Allowance {
  Seconds seconds = 0;
  int64_t states = 0;   // 0: no bound
  double patience = 1;  // Patience's factor; 0: endless
  uint64_t round = 0;   // added to the seed
  Bytes memory = 0;     // as OptimizeOptions::search_memory
  bool swaps = true;
  const KnownOrders* known = nullptr;  // of a graph with the same regions
  bool reorders = false;               // even if there are such orders
  enum class Start : uint8_t { anew, constructed, best };
  Start start = Start::anew;  // from which of the trial's schedules, where it has that
  bool archives = false;
};

struct SearchedTrial {
  std::shared_ptr<const Graph> graph;  // null: the one given
  OptimizeResult result;
  Hotspots hotspots;
  Decisions constructed;
  KnownOrders orders;       // if it looked for them
  ScheduleArchive archive;  // where it was asked for
};

// Some result of a region in parts is added or multiplied up part by part, which rounds differently
// than the whole.
bool adds_parts(const Graph& graph);

// May be used by several threads at a time.
class TrialSearch {
 public:
  // `ground`: null if nothing may run in parts. Keeps references.
  TrialSearch(const Graph& source, const CostTable& source_costs, const DeviceProfile& profile,
              const OptimizeOptions& options, const LowerBound& bound, const FissionGround* ground);

  // Nothing if types or layouts, or the options, keep a region from being split.
  std::optional<Graph> split(const Trial& trial) const;
  // In program order.
  std::optional<Cost> plain_cost(const Trial& trial) const;
  using Report = std::function<bool(const Progress&)>;
  std::optional<SearchedTrial> search(const Trial& trial, const Allowance& allowance,
                                      const Report& report) const;

 private:
  OptimizeResult schedule(const Graph& graph, const CostTable& costs, const Trial& trial,
                          const Allowance& allowance, const Report& report,
                          SearchedTrial& searched) const;

  const Graph& source_;
  const CostTable& source_costs_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const LowerBound& bound_;
  const FissionGround* ground_;
};

}  // namespace magis
