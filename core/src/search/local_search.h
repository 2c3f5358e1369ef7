// Local search: small random edits, accepted like a cooling melt, on the overflow above aims just
// beyond the best schedule.
#pragma once

#include <vector>

#include "search/aims.h"
#include "search/budget.h"
#include "search/random.h"
#include "search/scoring.h"

namespace magis {

class LocalSearch {
 public:
  // `classes` numbers edges by structure: equal ones are edited together now and then.
  LocalSearch(Evaluator& evaluator, const Scorer& scorer, Budget& budget, Random& random,
              std::vector<std::vector<EdgeId>> classes);

  // One cooling of `steps` edits, from the best schedule. Returns whether the incumbent got better.
  bool anneal(Incumbent& incumbent, int64_t steps);

 private:
  void edit();
  void edit_class();
  void move_operator();
  Mode other_mode(Mode mode);
  // How far from the aims, as a share of them; a little for time and live bytes where both are
  // kept.
  double energy();

  Evaluator& evaluator_;
  const Scorer& scorer_;
  Budget& budget_;
  Random& random_;
  std::vector<std::vector<EdgeId>> classes_;
  Aims aims_;
  Picoseconds least_time_ = 0;
  Evaluator::Usage usage_;
};

}  // namespace magis
