#include "search/reorder.h"

#include <algorithm>
#include <vector>

namespace magis {
namespace {

constexpr int64_t kMostExchanges = 1'000'000;  // for each kind of reordering: some 0.2 s

// Carries an operator over its window and leaves it at the best place.
class Mover {
 public:
  Mover(Evaluator& evaluator, Bytes target, Budget& budget, ExchangeAllowance& allowance)
      : evaluator_(evaluator),
        target_(target),
        budget_(budget),
        allowance_(allowance),
        current_(evaluator.usage(target)),
        // So that every operator gets its turn within one sweep.
        reach_(std::max<int>(32, static_cast<int>(kMostExchanges / 4 / evaluator.op_count()))) {}

  // Whether the operator at `position` has found a better place.
  bool place(int position) {
    best_ = current_;
    best_place_ = position;
    const std::size_t start = evaluator_.mark();
    for (const int step : {-1, +1}) {
      explore(position, step);
      evaluator_.undo(start);
    }
    if (best_place_ == position) return false;
    evaluator_.move(position, best_place_);
    evaluator_.forget();
    current_ = best_;
    return true;
  }

 private:
  void explore(int position, int step) {
    int64_t overflow = current_.overflow;
    for (int moved = 0; moved < reach_ && !budget_.stopped() && allowance_.spend(); ++moved) {
      const int front = step > 0 ? position : position - 1;
      if (front < 0 || front + 1 >= evaluator_.op_count() || !evaluator_.can_exchange(front))
        return;
      overflow = swap(front, overflow);
      position += step;
      budget_.count_scored();
      if (overflow >= best_.overflow || !evaluator_.feasible()) continue;
      const Evaluator::Usage usage = evaluator_.usage(target_);
      budget_.count_evaluated();
      if (usage.peak > best_.peak) continue;
      best_ = usage;
      best_place_ = position;
    }
  }

  // Returns the overflow afterwards. Where nothing is recomputed a swap changes two positions only.
  int64_t swap(int front, int64_t overflow) {
    if (!evaluator_.plain()) {
      evaluator_.exchange(front);
      return evaluator_.usage(target_).overflow;
    }
    overflow -= overflow_at(front) + overflow_at(front + 1);
    evaluator_.exchange(front);
    return overflow + overflow_at(front) + overflow_at(front + 1);
  }
  int64_t overflow_at(int position) const {
    return std::max<Bytes>(0, evaluator_.bytes_at(position) - target_);
  }

  Evaluator& evaluator_;
  Bytes target_;
  Budget& budget_;
  ExchangeAllowance& allowance_;
  Evaluator::Usage current_;
  int reach_;
  Evaluator::Usage best_;
  int best_place_ = 0;
};

// `target` is a share of the peak.
void reorder_against(double target, Evaluator& evaluator, Budget& budget,
                     ExchangeAllowance& allowance) {
  constexpr int kSweeps = 4;
  for (int sweep = 0; sweep < kSweeps && !budget.stopped() && !allowance.spent(); ++sweep) {
    const double peak = static_cast<double>(evaluator.peak());
    if (!reorder_sweep(evaluator, static_cast<Bytes>(target * peak), budget, allowance)) return;
  }
}

}  // namespace

bool reorder_sweep(Evaluator& evaluator, Bytes target, Budget& budget,
                   ExchangeAllowance& allowance) {
  std::vector<OpId> ops;
  for (int k = 0; k < evaluator.op_count(); ++k) ops.push_back(evaluator.op_at(k));
  Mover mover(evaluator, target, budget, allowance);
  bool moved = false;
  // Last first: what is moved late makes room for its own producers to follow.
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if (budget.stopped() || allowance.spent()) break;
    moved |= mover.place(evaluator.position(*op));
  }
  return moved;
}

void reorder_for_peak(Evaluator& evaluator, Budget& budget) {
  ExchangeAllowance allowance(kMostExchanges);
  reorder_against(0.95, evaluator, budget, allowance);
}

void reorder_for_area(Evaluator& evaluator, Budget& budget) {
  ExchangeAllowance allowance(kMostExchanges);
  reorder_against(0.8, evaluator, budget, allowance);
  reorder_against(0, evaluator, budget, allowance);
}

}  // namespace magis
