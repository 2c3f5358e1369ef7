// Greedy construction: drop what brings most until memory is below the goal; then take back what is
// not needed for it.
#pragma once

#include <cstdint>
#include <vector>

#include "search/budget.h"
#include "search/evaluator.h"
#include "search/incumbent.h"
#include "search/random.h"
#include "search/scoring.h"

namespace magis {

// None of them is best everywhere, so all are used.
enum class GreedyRule : uint8_t {
  relief_per_time,  // overflow bytes for a second of recomputation
  largest_drop,     // of the peak; the former where several do the same
  drop_per_time,
};
inline constexpr GreedyRule kGreedyRules[] = {GreedyRule::relief_per_time, GreedyRule::largest_drop,
                                              GreedyRule::drop_per_time};

struct GreedyOptions {
  GreedyRule rule = GreedyRule::relief_per_time;
  Bytes goal = 0;  // transient peak to stop at
  Picoseconds time_limit = Objective::kNoLimit;
  double step =
      0;  // the target goes down to the goal by this share of the peak at a time; 0: at once
  double noise = 0;  // each gain is multiplied by up to e^noise or divided by it
};

class Greedy {
 public:
  Greedy(Evaluator& evaluator, Budget& budget, Random& random);

  // From the evaluator's present schedule. Returns whether the goal was reached. Each schedule on
  // the way is offered to `incumbent`.
  bool descend(const GreedyOptions& options, Incumbent& incumbent);

  Scorer& scorer() { return scorer_; }

  // Uses from position `first` to `last` get their tensors made again for each of them, as far as
  // that lets memory go: tighten() then finds what stays from where on. Without `kept_too` only
  // those whose tensors are made again already.
  void make_anew(int first, int last, bool kept_too);

  // Undoes recomputation as long as the peak stays within `allowed`: what saves most time first,
  // each multiplied by up to e^noise or divided by it.
  void tighten(Bytes allowed, double noise = 0);

 private:
  struct Priority {
    double major = 0;
    double minor = 0;
    auto operator<=>(const Priority&) const = default;
  };
  struct Candidate {
    Priority priority;
    ModeEdit edit;
    double luck = 1;
    int64_t version = 0;  // of the schedule for which the priority is exact; 0: an estimate
    bool operator<(const Candidate& other) const;
  };

  Priority priority(const Gain& gain, double luck) const;
  void collect(Bytes target);
  bool meet_target(Bytes target, Incumbent& incumbent);
  template <class Attempt>
  bool take_best(Attempt&& attempt);
  bool drop_best(Bytes target);
  bool is_sooner(EdgeId edge, Mode mode) const;
  double lucky(double noise);
  void list_returns(EdgeId edge, Bytes allowed);
  Picoseconds try_return(const ModeEdit& edit, Bytes allowed);
  void collect_returns(Bytes allowed, double noise);
  bool return_best(Bytes allowed);

  Evaluator& evaluator_;
  Budget& budget_;
  Random& random_;
  Scorer scorer_;
  GreedyOptions options_;
  Picoseconds least_time_;  // below it differences of time do not count
  std::vector<Candidate> heap_;
  std::vector<Mode> returns_;  // of one use
  int64_t version_ = 0;
  Evaluator::Usage usage_;
};

}  // namespace magis
