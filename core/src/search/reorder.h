// Reordering: memory for nothing.
#pragma once

#include "search/budget.h"
#include "search/evaluator.h"

namespace magis {

// What reordering may cost, in exchanges of neighbours: windows grow with the graph, so without a
// bound the work would grow with its square. A number of exchanges, not a time: the result does not
// depend on the clock.
class ExchangeAllowance {
 public:
  explicit ExchangeAllowance(int64_t exchanges) : left_(exchanges) {}
  bool spend() { return left_-- > 0; }
  bool spent() const { return left_ <= 0; }

 private:
  int64_t left_;
};

// Moves operators to better places between their predecessors and successors, sweep after sweep,
// until nothing moves, the allowance is used up, or the budget is spent. The peak never rises;
// modes stay as they are.
//
// Against the overflow just below the peak. Little moves, and recomputation finds the order as it
// was.
void reorder_for_peak(Evaluator& evaluator, Budget& budget);
// Against the overflow further down too, in the end against the sum of live bytes. Mostly a better
// start for recomputation, but not always: what is made late may no longer be there to recompute
// from.
void reorder_for_area(Evaluator& evaluator, Budget& budget);

// One sweep over all operators, last first, against the overflow above `target`. Returns whether
// anything moved.
bool reorder_sweep(Evaluator& evaluator, Bytes target, Budget& budget,
                   ExchangeAllowance& allowance);

}  // namespace magis
