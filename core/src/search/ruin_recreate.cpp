#include "search/ruin_recreate.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace magis {

RuinRecreate::RuinRecreate(Evaluator& evaluator, Greedy& greedy, SwapPlanner* swaps, Budget& budget,
                           Random& random)
    : evaluator_(evaluator), greedy_(greedy), swaps_(swaps), budget_(budget), random_(random) {}

bool RuinRecreate::attempt(Incumbent& incumbent) {
  const Cost before = incumbent.cost();
  restore(evaluator_, incumbent.decisions());
  ruin(incumbent.objective().limits_memory() && incumbent.met());
  if (!evaluator_.feasible()) return false;  // a stretch was dropped that cannot run again
  while (recreate(incumbent) && !budget_.stopped()) {
  }
  return incumbent.cost() != before;
}

void RuinRecreate::ruin(bool may_make_anew) {
  constexpr double kAnew = 0.3;
  if (may_make_anew && random_.chance(kAnew)) {
    make_stretch_anew();
    return evaluator_.forget();
  }
  const double kind = random_.uniform();
  if (kind < 0.4) {
    take_back_some();
  } else if (kind < 0.7) {
    take_back_stretch();
  } else {
    if (random_.chance(0.5)) take_back_some();
    drop_stretch();
  }
  evaluator_.forget();
}

std::vector<EdgeId> RuinRecreate::dropped() const {
  std::vector<EdgeId> edges;
  for (const EdgeId edge : greedy_.scorer().edges()) {
    if (evaluator_.mode(edge) != Mode::keep) edges.push_back(edge);
  }
  return edges;
}

void RuinRecreate::take_back_some() {
  std::vector<EdgeId> edges = dropped();
  const double share = 0.05 + 0.4 * random_.uniform();
  std::erase_if(edges, [&](EdgeId) { return !random_.chance(share); });
  evaluator_.set_modes(edges, Mode::keep);
}

void RuinRecreate::take_back_stretch() {
  std::vector<EdgeId> edges = dropped();
  const auto count = static_cast<std::size_t>(evaluator_.op_count());
  const int begin = static_cast<int>(random_.below(count));
  const int end = begin + static_cast<int>(count / 16 + random_.below(count / 4 + 1));
  std::erase_if(edges, [&](EdgeId edge) {
    return evaluator_.use_position(edge) < begin || evaluator_.use_position(edge) > end;
  });
  evaluator_.set_modes(edges, Mode::keep);
}

// A stretch in which something is made again: which checkpoints stay in it, and from which chains
// on, is found anew. A checkpoint is not moved alone, as the chains around it move with it.
void RuinRecreate::make_stretch_anew() {
  constexpr int kLongest = 64;  // chains grow with its square
  const std::vector<EdgeId> edges = dropped();
  if (edges.empty()) return;
  const int begin = evaluator_.use_position(edges[random_.below(edges.size())]);
  const int reach = 1 + std::min(kLongest, evaluator_.op_count());
  const int end = begin + static_cast<int>(random_.below(static_cast<std::size_t>(reach)));
  greedy_.make_anew(begin, end, random_.chance(0.5));
}

// Everything that one stretch of the order makes and something after the peak reads: the stretch
// runs again from what reaches it.
void RuinRecreate::drop_stretch() {
  const int peak = evaluator_.peak_position();
  if (peak == 0) return;
  const int begin = static_cast<int>(random_.below(static_cast<std::size_t>(peak)));
  const int length =
      1 + static_cast<int>(random_.below(1 + static_cast<std::size_t>(evaluator_.op_count()) / 8));
  const Problem& problem = evaluator_.problem();
  std::vector<EdgeId> edges;
  for (const EdgeId edge : greedy_.scorer().edges()) {
    const int made = evaluator_.position(problem.producer[problem.edge_tensor[edge]]);
    if (made < begin || made >= begin + length) continue;
    if (!problem.droppable[edge] || evaluator_.is_swapped(problem.edge_tensor[edge])) continue;
    if (evaluator_.held_from(edge) < peak && evaluator_.use_position(edge) > peak) {
      edges.push_back(edge);
    }
  }
  evaluator_.set_modes(edges, Mode::recompute);
}

// Returns whether it is worth going on from where it ended.
bool RuinRecreate::recreate(Incumbent& incumbent) {
  constexpr double kSteps[] = {0, 0.02, 0.1};
  constexpr double kSlack[] = {0, 0, 0.02, 0.05};
  const Aims aims = magis::aims(incumbent, 0.005);
  GreedyOptions options;
  options.rule = kGreedyRules[random_.below(std::size(kGreedyRules))];
  options.noise = 0.2 + 0.8 * random_.uniform();
  options.step = kSteps[random_.below(std::size(kSteps))];
  options.goal = aims.peak;
  // Taking back what is not needed in the end saves time: a little too much is fine on the way.
  const double slack = 1 + kSlack[random_.below(std::size(kSlack))];
  options.time_limit = aims.time >= Objective::kNoLimit
                           ? aims.time
                           : static_cast<Picoseconds>(slack * static_cast<double>(aims.time));
  if (swaps_ != nullptr) swaps_->plan(options.goal);
  if (!greedy_.descend(options, incumbent)) return false;
  greedy_.tighten(options.goal, incumbent.objective().limits_memory() ? options.noise : 0);
  if (swaps_ != nullptr) swaps_->settle(options.goal);
  const bool better = incumbent.offer(evaluator_, {evaluator_.peak(), evaluator_.time()});
  return better && aims.shrink_peak;
}

}  // namespace magis
