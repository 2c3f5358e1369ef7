// A graph with some of its regions in parts, ready to be scheduled, and how the schedule of one
// such graph becomes that of another.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "magis/search/fission_ground.h"
#include "search/evaluator.h"
#include "search/problem.h"
#include "search/state_hash.h"

namespace magis {

struct SplitProblem {
  // `split`: nothing if `source` runs as it is. Keeps references to both.
  SplitProblem(const Graph& source, std::optional<Graph> split, const DeviceProfile& profile,
               Bytes host_memory);
  SplitProblem(const SplitProblem&) = delete;
  SplitProblem& operator=(const SplitProblem&) = delete;

  const std::optional<Graph> split;
  const Graph& graph;
  const CostTable costs;
  const Problem problem;
  Evaluator evaluator;
  Evaluator trial;  // a second one, for what is only looked at
  StateHash hash;
  // Operators by name, the parts of what was one operator by that one's name; no begins and ends of
  // loops.
  std::unordered_map<std::string_view, OpId> by_name;
};

// `%x_part` is what a region makes of `%x`, also where regions are nested.
std::string_view unsplit_name(std::string_view name);

// Every operator once, those of a loop together: in each body always the operator of least rank
// among those that may run next; a loop ranks as the first of its operators.
std::vector<OpId> order_bodies_by_rank(const Graph& graph, const IdMap<OpId, int>& rank);

// Loads `to.evaluator` with what `decisions`, of `from`, are there: the order as far as it stands,
// and every edit whose tensor and reader are found by name, as far as the schedule stays feasible.
// Swapped uses have the widest gap.
void carry_over(const SplitProblem& from, const Decisions& decisions, SplitProblem& to);

// The split problems that were needed last, by regions.
class SplitProblems {
 public:
  // Keeps references to all of them. `exact`: sums may not be added up part by part.
  SplitProblems(const Graph& source, const FissionGround& ground, const DeviceProfile& profile,
                Bytes host_memory, bool exact);

  // Nothing if types or layouts keep the regions from being split. Requires valid regions, none of
  // them a mere candidate.
  std::shared_ptr<SplitProblem> find(std::span<const FissionRegion> regions);

 private:
  struct Entry {
    uint64_t hash = 0;
    std::vector<FissionRegion> regions;
    std::shared_ptr<SplitProblem> problem;
  };
  std::shared_ptr<SplitProblem> make(std::span<const FissionRegion> regions) const;

  static constexpr std::size_t kKept = 32;

  const Graph& source_;
  const FissionGround& ground_;
  const DeviceProfile& profile_;
  Bytes host_memory_;
  bool exact_;
  std::list<Entry> entries_;  // the last needed first
};

}  // namespace magis
