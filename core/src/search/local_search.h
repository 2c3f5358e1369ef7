// Local search: small random edits, accepted like a cooling melt, on the overflow above aims just
// beyond the best schedule.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/aims.h"
#include "search/budget.h"
#include "search/edit.h"
#include "search/random.h"
#include "search/scoring.h"

namespace magis {

class LocalSearch {
 public:
  // `classes` numbers edges by structure: equal ones are edited together now and then.
  LocalSearch(Evaluator& evaluator, const Scorer& scorer, Budget& budget, Random& random,
              std::span<const std::vector<EdgeId>> classes);

  // One cooling of `steps` edits, from the best schedule. Returns whether the incumbent got better.
  bool anneal(Incumbent& incumbent, int64_t steps);

 private:
  Edit propose();
  Edit edit_of_use();
  Edit edit_of_class();
  Edit move();
  std::optional<Edit> exchange();
  EdgeId dropped_near(EdgeId edge);
  Mode other_mode(Mode mode);
  Mode later_mode(EdgeId edge);

  Evaluator& evaluator_;
  const Scorer& scorer_;
  Budget& budget_;
  Random& random_;
  std::span<const std::vector<EdgeId>> classes_;
};

}  // namespace magis
