#include "search/reorder.h"

#include <algorithm>
#include <vector>

namespace magis {
namespace {

// Carries an operator over its whole window and leaves it at the best place.
class Mover {
 public:
  Mover(Evaluator& evaluator, Bytes target, Budget& budget)
      : evaluator_(evaluator), target_(target), budget_(budget) {}

  // Whether the operator at `position` has found a better place.
  bool place(int position) {
    best_ = evaluator_.usage(target_);
    best_place_ = position;
    const int64_t overflow = best_.overflow;
    const std::size_t start = evaluator_.mark();
    explore(position, -1, overflow);
    evaluator_.undo(start);
    explore(position, +1, overflow);
    evaluator_.undo(start);
    if (best_place_ == position) return false;
    evaluator_.move(position, best_place_);
    evaluator_.forget();
    return true;
  }

 private:
  void explore(int position, int step, int64_t overflow) {
    while (!budget_.stopped()) {
      const int front = step > 0 ? position : position - 1;
      if (front < 0 || front + 1 >= evaluator_.op_count() || !evaluator_.can_swap(front)) return;
      overflow = swap(front, overflow);
      position += step;
      budget_.count_evaluated();
      if (overflow >= best_.overflow || !evaluator_.feasible()) continue;
      const Evaluator::Usage usage = evaluator_.usage(target_);
      if (usage.peak > best_.peak) continue;
      best_ = usage;
      best_place_ = position;
    }
  }

  // Returns the overflow afterwards. Where nothing is recomputed a swap changes two positions'
  // bytes only.
  int64_t swap(int front, int64_t overflow) {
    if (!evaluator_.plain()) {
      evaluator_.swap(front);
      return evaluator_.usage(target_).overflow;
    }
    overflow -= overflow_at(front) + overflow_at(front + 1);
    evaluator_.swap(front);
    return overflow + overflow_at(front) + overflow_at(front + 1);
  }
  int64_t overflow_at(int position) const {
    return std::max<Bytes>(0, evaluator_.bytes_at(position) - target_);
  }

  Evaluator& evaluator_;
  Bytes target_;
  Budget& budget_;
  Evaluator::Usage best_;
  int best_place_ = 0;
};

}  // namespace

bool reorder_sweep(Evaluator& evaluator, Bytes target, Budget& budget) {
  std::vector<OpId> ops;
  for (int k = 0; k < evaluator.op_count(); ++k) ops.push_back(evaluator.op_at(k));
  Mover mover(evaluator, target, budget);
  bool moved = false;
  // Backward first: what is moved late makes room for its own producers to follow.
  for (auto op = ops.rbegin(); op != ops.rend() && !budget.stopped(); ++op) {
    moved |= mover.place(evaluator.position(*op));
  }
  return moved;
}

namespace {

// `target` is a share of the peak.
void reorder_against(double target, Evaluator& evaluator, Budget& budget) {
  constexpr int kSweeps = 4;
  for (int sweep = 0; sweep < kSweeps && !budget.stopped(); ++sweep) {
    const double peak = static_cast<double>(evaluator.peak());
    if (!reorder_sweep(evaluator, static_cast<Bytes>(target * peak), budget)) return;
  }
}

}  // namespace

void reorder_for_peak(Evaluator& evaluator, Budget& budget) {
  reorder_against(0.95, evaluator, budget);
}

void reorder_for_area(Evaluator& evaluator, Budget& budget) {
  reorder_against(0.8, evaluator, budget);
  reorder_against(0, evaluator, budget);
}

}  // namespace magis
