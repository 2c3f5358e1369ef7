// Swapping for nothing: which tensors are on the host for a while, all copies hidden behind
// computing.
//
// Gaps are placed by place_copies() on the times of the plain schedule, where nothing is
// recomputed. Recomputation only adds time between positions, so what is hidden there stays hidden:
// for every copy, the time from its issue to its await grows, and so does that of all copies before
// it. Every loop body has a timeline of its own, one iteration, and what surrounds a loop that
// copies takes the link for busy while it runs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "magis/schedule/placement.h"
#include "search/budget.h"
#include "search/evaluator.h"
#include "search/overflow.h"

namespace magis {

class SwapPlanner {
 public:
  SwapPlanner(Evaluator& evaluator, Budget& budget);

  // Adds gaps to the evaluator's present schedule, best first by the overflow that a second of
  // copying takes off, until nothing exceeds `target` or nothing helps. Returns whether it is met.
  bool plan(Bytes target);
  // Takes back what is not needed to stay within `allowed`.
  void tighten(Bytes allowed);
  // Places all gaps anew for the schedule as it has become: chains take time, and some read what is
  // loaded before its use. Undone if the peak would then exceed `allowed`.
  void settle(Bytes allowed);

 private:
  struct Body {
    LoopId loop;    // invalid: the step itself
    int first = 0;  // position of its first operator
    int end = 0;    // past its last one
    double iterations = 1;
    bool timed = false;              // start and border hold
    std::vector<Picoseconds> start;  // from `first` on, of one iteration
    std::vector<uint8_t> border;
    std::vector<EdgeId> swapped;
    std::vector<std::pair<int, Picoseconds>> stores;  // sorted: (made, end of the store)
    std::vector<std::pair<int, Picoseconds>> loads;   // sorted: (use, start of the load)
  };
  struct Candidate {
    double score = 0;
    EdgeId edge;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : edge > other.edge;
    }
  };

  // Says whether all that is swapped can be hidden.
  bool find_bodies();
  void time_body(Body& body);
  Body& body_of(EdgeId edge) { return bodies_[body_index(edge)]; }
  std::size_t body_index(EdgeId edge) const;
  CopyJob job_of(EdgeId edge, const Body& body) const;
  bool is_stored_before(EdgeId edge) const;
  bool may_swap(EdgeId edge) const;

  void collect();
  double score(EdgeId edge);
  bool swap(EdgeId edge);
  void forget_times_around(const Body& body);
  void choose(EdgeId edge);
  void unchoose(EdgeId edge);
  // Gives every chosen use of the body and of those around it its gap; false, and nothing is
  // promised about the evaluator, if that is not possible.
  bool place_around(std::size_t index);
  bool place(Body& body);

  Evaluator& evaluator_;
  const Problem& problem_;
  Budget& budget_;
  Bytes target_ = 0;
  bool count_chains_ = false;  // in times
  int64_t present_overflow_ = 0;
  std::vector<Body> bodies_;       // the step itself, then by loop
  IdMap<EdgeId, uint8_t> chosen_;  // swapped, or tried
  std::vector<Candidate> heap_;
  Overflow overflow_;
};

}  // namespace magis
