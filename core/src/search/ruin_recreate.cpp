#include "search/ruin_recreate.h"

#include <vector>

namespace magis {

RuinRecreate::RuinRecreate(Evaluator& evaluator, Greedy& greedy, Budget& budget, Random& random)
    : evaluator_(evaluator), greedy_(greedy), budget_(budget), random_(random) {}

bool RuinRecreate::attempt(Incumbent& incumbent) {
  const Cost before = incumbent.cost();
  restore(evaluator_, incumbent.decisions());
  ruin();
  recreate(incumbent);
  return incumbent.cost() != before;
}

void RuinRecreate::ruin() {
  const Problem& problem = evaluator_.problem();
  std::vector<EdgeId> dropped;
  for (std::size_t e = 0; e < problem.edge_op.size(); ++e) {
    if (evaluator_.mode(EdgeId(e)) != Mode::keep) dropped.push_back(EdgeId(e));
  }
  // Either uses here and there, or all in one stretch of the order.
  if (random_.chance(0.6)) {
    const double share = 0.05 + 0.4 * random_.uniform();
    std::erase_if(dropped, [&](EdgeId) { return !random_.chance(share); });
  } else {
    const auto count = static_cast<std::size_t>(evaluator_.op_count());
    const int begin = static_cast<int>(random_.below(count));
    const int end = begin + static_cast<int>(count / 16 + random_.below(count / 4 + 1));
    std::erase_if(dropped, [&](EdgeId edge) {
      return evaluator_.use_position(edge) < begin || evaluator_.use_position(edge) > end;
    });
  }
  evaluator_.set_modes(dropped, Mode::keep);
  evaluator_.forget();
}

void RuinRecreate::recreate(Incumbent& incumbent) {
  constexpr double kSteps[] = {0, 0.02, 0.1};
  const Aims aims = magis::aims(incumbent, 0.005);
  GreedyOptions options;
  options.rule = kGreedyRules[random_.below(std::size(kGreedyRules))];
  options.noise = 0.2 + 0.8 * random_.uniform();
  options.step = kSteps[random_.below(std::size(kSteps))];
  options.goal = aims.peak;
  options.time_limit = aims.time;
  while (greedy_.descend(options, incumbent) && !budget_.stopped()) {
    greedy_.tighten(options.goal);
    const Cost cost{evaluator_.peak(), evaluator_.time()};
    incumbent.offer(evaluator_, cost);
    if (!aims.shrink_peak) return;
    options.goal = magis::aims(incumbent, 0.005).peak;
    if (incumbent.met() && incumbent.objective().limits_memory()) return;
  }
}

}  // namespace magis
