// Ruin and recreate: change much of a good schedule at once - take back recomputation here, force
// it there - then repair it greedily, with noise, towards something better.
#pragma once

#include <vector>

#include "search/aims.h"
#include "search/greedy.h"
#include "search/swap_planner.h"

namespace magis {

class RuinRecreate {
 public:
  // `swaps`: nothing, if the device does not swap.
  RuinRecreate(Evaluator& evaluator, Greedy& greedy, SwapPlanner* swaps, Budget& budget,
               Random& random);

  // One attempt. Returns whether the incumbent got better.
  bool attempt(Incumbent& incumbent);

 private:
  void ruin(bool may_make_anew);
  void take_back_some();
  void take_back_stretch();
  void drop_stretch();
  void make_stretch_anew();
  bool recreate(Incumbent& incumbent);
  std::vector<EdgeId> dropped() const;

  Evaluator& evaluator_;
  Greedy& greedy_;
  SwapPlanner* swaps_;
  Budget& budget_;
  Random& random_;
};

}  // namespace magis
