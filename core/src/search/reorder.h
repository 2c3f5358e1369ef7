// Reordering: memory for nothing.
#pragma once

#include "search/budget.h"
#include "search/evaluator.h"

namespace magis {

// Moves every operator to the best place between its predecessors and successors, again and again,
// until nothing moves or the budget is spent: first against the overflow above a target that
// shrinks from the peak on, in the end against the sum of live bytes. The peak never rises. Modes
// stay as they are.
void reorder(Evaluator& evaluator, Budget& budget);

// One sweep over all operators, in the order of the program, against the overflow above `target`.
// Returns whether anything moved.
bool reorder_sweep(Evaluator& evaluator, Bytes target, Budget& budget);

}  // namespace magis
