// A state of the paper's search.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "magis/analysis/fission_tree.h"
#include "search/objective.h"
#include "search/paper_rules.h"
#include "search/paper_source.h"

namespace magis {

// Regions that run in parts, nested.
struct Regions {
  std::vector<FissionRegion> enabled;
  uint64_t key = 0;  // equal for isomorphic ones
};

// What a state is: where its gaps stand follows from what is swapped, and from the order.
inline Decisions without_gaps(Decisions decisions) {
  decisions.gaps.clear();
  return decisions;
}

struct PaperState {
  Cost cost;
  int64_t number = 0;  // in the order in which they were made
  std::shared_ptr<PaperSource> source;
  std::shared_ptr<const Regions> regions;
  std::shared_ptr<const std::vector<OpId>> order;
  std::vector<ScheduleStep> dropped = {};  // uses that are made again
  std::vector<Gap> gaps = {};
  // The tree that it was made from, before `mutation`; nothing: the analysis runs again.
  std::shared_ptr<const FissionTree> tree = {};
  std::optional<Mutation> mutation = {};

  Decisions decisions(const Graph& graph) const {
    Decisions made{*order, IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep), gaps};
    for (const ScheduleStep& step : dropped) made.modes[step.edge] = step.mode;
    for (const Gap& gap : gaps) made.modes[gap.use] = Mode::swap;
    return made;
  }
};

struct BetterFirst {
  const Objective* objective;
  bool operator()(const PaperState& a, const PaperState& b) const {
    if (objective->better(a.cost, b.cost)) return true;
    if (objective->better(b.cost, a.cost)) return false;
    return a.number < b.number;
  }
};

}  // namespace magis
