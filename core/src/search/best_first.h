// Best-first search (the paper's Alg. 3, section 6.2), on estimates: a queued state is a parent and
// one edit; it is built and evaluated exactly when it is popped, and dropped if it was seen or lies
// too far behind the best.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <unordered_set>
#include <vector>

#include "search/aims.h"
#include "search/budget.h"
#include "search/edit.h"
#include "search/scoring.h"

namespace magis {

class BestFirst {
 public:
  // `memory`: about what the states that wait may take.
  BestFirst(Evaluator& evaluator, Scorer& scorer, Budget& budget,
            std::span<const std::vector<EdgeId>> classes, Bytes memory);

  // From the incumbent, until `patience` states popped in a row have not improved on it, or the
  // queue is empty. Returns whether the incumbent got better.
  bool run(Incumbent& incumbent, int64_t patience);

 private:
  struct Queued {
    double energy;  // estimated
    int64_t sequence;
    std::size_t parent;
    SetModes edit;
    // For a queue whose top is the least.
    bool operator<(const Queued& other) const {
      return energy != other.energy ? energy > other.energy : sequence > other.sequence;
    }
  };

  bool visit(const Queued& queued, Incumbent& incumbent);
  void expand(const Incumbent& incumbent);
  void propose_drops(const Energy& energy);
  void propose_classes(const Energy& energy);
  void propose_returns(const Energy& energy);
  void propose(SetModes edit, const Gain& gain, const Energy& energy);

  Evaluator& evaluator_;
  Scorer& scorer_;
  Budget& budget_;
  std::span<const std::vector<EdgeId>> classes_;
  std::size_t most_nodes_;
  IdMap<EdgeId, int32_t> class_of_;
  IdMap<EdgeId, int32_t> slot_;             // index in the scorer's edges; -1: left out
  std::vector<IdMap<EdgeId, Mode>> nodes_;  // modes of the expanded states
  std::vector<Queued> found_;               // successors of the state being expanded
  std::priority_queue<Queued> queue_;
  std::unordered_set<uint64_t> seen_;
  std::vector<Gain> class_gain_;
  std::vector<int32_t> class_size_;
  Evaluator::Usage usage_;
  int64_t sequence_ = 0;
};

}  // namespace magis
