// Ruin and recreate: take back part of the best schedule's recomputation, then build it up again
// greedily, with noise, towards something better.
#pragma once

#include "search/aims.h"
#include "search/greedy.h"

namespace magis {

class RuinRecreate {
 public:
  RuinRecreate(Evaluator& evaluator, Greedy& greedy, Budget& budget, Random& random);

  // One attempt. Returns whether the incumbent got better.
  bool attempt(Incumbent& incumbent);

 private:
  void ruin();
  void recreate(Incumbent& incumbent);

  Evaluator& evaluator_;
  Greedy& greedy_;
  Budget& budget_;
  Random& random_;
};

}  // namespace magis
