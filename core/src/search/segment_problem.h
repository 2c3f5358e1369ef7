// The scheduler's view of a schedule in which tensors are made again and swapped.
//
// An operator and the copies made for it are one node, and so is an inner loop. A tensor that is
// dropped and comes back lives several lives, each made by one node and read by others; the lives
// of a tensor keep their order, so that each use goes on reading the copy that it reads now.
#pragma once

#include <span>
#include <vector>

#include "magis/schedule/scheduling_problem.h"
#include "search/evaluator.h"

namespace magis {

struct SegmentProblem {
  SchedulingProblem problem;  // nodes are numbered in the present order; a "tensor" is a life
  int first = 0;              // position of the body's first operator
  IdMap<OpId, NodeId> node;   // invalid for operators outside the body
};

// Of the body of `loop`; of the step itself if that is invalid. Bytes are the evaluator's, or more
// where an operator with copies of its own runs in place; for another order, what a chain finds
// live and what not is taken to stay as it is. O(operators + edges).
SegmentProblem make_segment_problem(const Evaluator& evaluator, LoopId loop);

}  // namespace magis
