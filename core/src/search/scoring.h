// What dropping a tensor between two uses would bring, estimated without changing the schedule: the
// search looks at all candidates this way and evaluates few of them.
#pragma once

#include <vector>

#include "search/budget.h"
#include "search/evaluator.h"
#include "search/overflow.h"

namespace magis {

struct ModeEdit {
  EdgeId edge;
  Mode mode = Mode::recompute;
};

struct Gain {
  int64_t relief = 0;    // less overflow above the target, in bytes times segments
  Bytes drop = 0;        // lower peak
  Picoseconds time = 0;  // more time
};

class Scorer {
 public:
  // Edges whose tensors are too small to matter are left out.
  explicit Scorer(const Problem& problem);

  // Tables the evaluator's profile against `target`. Scores hold until the evaluator changes.
  void focus(const Evaluator& evaluator, Bytes target);
  // Every edit that shortens the life of something which is alive while memory exceeds the target,
  // and what it is thought to bring. O(edges + chains).
  struct Scored {
    ModeEdit edit;
    Gain gain;
  };
  const std::vector<Scored>& score_all(const Evaluator& evaluator, Budget& budget);
  // What taking back the recomputation for `edge` would bring: a negative relief and a negative
  // time.
  Gain score_return(const Evaluator& evaluator, EdgeId edge) const;
  // The edit by which the tensor of `edge` would be alive for less long; a keep if there is none.
  static Mode dropping_mode(const Evaluator& evaluator, EdgeId edge);

  const std::vector<EdgeId>& edges() const { return edges_; }

 private:
  bool score(const Evaluator& evaluator, EdgeId edge, Gain& gain) const;
  bool score_later(const Evaluator& evaluator, EdgeId edge, Scored& later) const;
  bool score_swap(const Evaluator& evaluator, EdgeId edge, Gain& gain) const;
  bool score_absence(std::size_t begin, std::size_t end, EdgeId edge, Gain& gain) const;

  const Problem& problem_;
  std::vector<EdgeId> edges_;
  std::vector<Scored> scored_;
  Bytes target_ = 0;
  Overflow overflow_;
  // Over positions.
  std::vector<Bytes> front_peak_;  // most bytes before a position
  std::vector<Bytes> back_peak_;   // most bytes from a position on
  std::vector<int> last_excess_;   // the last position before it with bytes above the target
};

}  // namespace magis
