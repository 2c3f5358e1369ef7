#include "search/local_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace magis {

LocalSearch::LocalSearch(Evaluator& evaluator, const Scorer& scorer, Budget& budget, Random& random,
                         std::span<const std::vector<EdgeId>> classes)
    : evaluator_(evaluator), scorer_(scorer), budget_(budget), random_(random), classes_(classes) {}

Mode LocalSearch::other_mode(Mode mode) {
  constexpr Mode kModes[] = {Mode::keep, Mode::keep, Mode::recompute, Mode::recompute,
                             Mode::recompute_anew};
  Mode other = mode;
  while (other == mode) other = kModes[random_.below(std::size(kModes))];
  return other;
}

// The tensor is there from one of the chains on that need it before this use.
Mode LocalSearch::later_mode(EdgeId edge) {
  const int begin = evaluator_.previous_position(edge) + 1;
  const int use = evaluator_.use_position(edge);
  const auto between = static_cast<std::size_t>(std::max(1, use - begin));
  const int need = evaluator_.first_need(edge, begin + static_cast<int>(random_.below(between)));
  return need < use ? Mode::late(evaluator_.op_at(need)) : Mode::recompute_anew;
}

Edit LocalSearch::edit_of_use() {
  constexpr double kLater = 0.3;
  const std::vector<EdgeId>& edges = scorer_.edges();
  const std::size_t i = random_.below(edges.size());
  const Mode mode = evaluator_.mode(edges[i]);
  const bool later = !holds(mode) && random_.chance(kLater);
  return SetModes{std::span(edges).subspan(i, 1), later ? later_mode(edges[i]) : other_mode(mode)};
}

Edit LocalSearch::edit_of_class() {
  const std::span<const EdgeId> members = classes_[random_.below(classes_.size())];
  const Mode mode = other_mode(evaluator_.mode(members[random_.below(members.size())]));
  if (random_.chance(0.65)) return SetModes{members, mode};
  const std::size_t begin = random_.below(members.size());
  return SetModes{members.subspan(begin, 1 + random_.below(members.size() - begin)), mode};
}

Edit LocalSearch::move() {
  const int count = evaluator_.op_count();
  const int from = static_cast<int>(random_.below(static_cast<std::size_t>(count)));
  const int reach = 1 << random_.below(8);
  const int to = random_.chance(0.5) ? from - reach : from + reach;
  return MoveOperator{evaluator_.op_at(from), std::clamp(to, 0, count - 1)};
}

Edit LocalSearch::propose() {
  const double kind = random_.uniform();
  if (kind < 0.6) return edit_of_use();
  if (kind < 0.8 && !classes_.empty()) return edit_of_class();
  return move();
}

bool LocalSearch::anneal(Incumbent& incumbent, int64_t steps) {
  constexpr double kShare = 0.01;
  // One segment's share of the energy; in the end a twentieth of it.
  const double hot = std::min(0.5, 3.0 / evaluator_.op_count());
  constexpr double kCooling = 0.05;
  if (scorer_.edges().empty()) return false;
  const Cost before = incumbent.cost();
  restore(evaluator_, incumbent.decisions());
  Energy energy(evaluator_, aims(incumbent, kShare));
  double current = energy.of(evaluator_.usage(energy.aims().peak), evaluator_.time());
  for (int64_t step = 0; step < steps && !budget_.stopped(); ++step) {
    const double heat =
        hot * std::pow(kCooling, static_cast<double>(step) / static_cast<double>(steps));
    const std::size_t mark = evaluator_.mark();
    apply_edit(evaluator_, propose());
    if (random_.chance(0.2)) apply_edit(evaluator_, propose());
    if (evaluator_.mark() == mark) continue;
    budget_.count_evaluated();
    const Evaluator::Usage usage = evaluator_.usage(energy.aims().peak);
    const double next = energy.of(usage, evaluator_.time());
    const bool taken = next <= current || random_.uniform() < std::exp((current - next) / heat);
    if (!taken || !evaluator_.feasible()) {
      evaluator_.undo(mark);
      continue;
    }
    evaluator_.forget();
    current = next;
    if (!incumbent.offer(evaluator_, {usage.peak, evaluator_.time()})) continue;
    energy.set_aims(aims(incumbent, kShare));
    current = energy.of(evaluator_.usage(energy.aims().peak), evaluator_.time());
  }
  return incumbent.cost() != before;
}

}  // namespace magis
