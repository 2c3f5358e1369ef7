#include "search/local_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace magis {

LocalSearch::LocalSearch(Evaluator& evaluator, const Scorer& scorer, Budget& budget, Random& random,
                         std::vector<std::vector<EdgeId>> classes)
    : evaluator_(evaluator),
      scorer_(scorer),
      budget_(budget),
      random_(random),
      classes_(std::move(classes)) {
  for (const Picoseconds time : evaluator.problem().time) least_time_ += time;
}

double LocalSearch::energy() {
  constexpr double kTimeWeight = 3;
  constexpr double kSlackWeight = 0.02;
  if (!evaluator_.feasible()) return 1e9;
  usage_ = evaluator_.usage(aims_.peak);
  const double peak = static_cast<double>(std::max<Bytes>(aims_.peak, 1));
  const double segments = evaluator_.op_count();
  double energy = static_cast<double>(usage_.overflow) / (peak * segments);
  if (usage_.peak > aims_.peak) energy += static_cast<double>(usage_.peak - aims_.peak) / peak;
  const Picoseconds time = evaluator_.time();
  const double least = static_cast<double>(least_time_);
  if (time > aims_.time) energy += kTimeWeight * static_cast<double>(time - aims_.time) / least;
  return energy + kSlackWeight * static_cast<double>(time - least_time_) / least;
}

Mode LocalSearch::other_mode(Mode mode) {
  constexpr Mode kModes[] = {Mode::keep, Mode::keep, Mode::recompute, Mode::recompute,
                             Mode::recompute_anew};
  Mode other = mode;
  while (other == mode) other = kModes[random_.below(std::size(kModes))];
  return other;
}

void LocalSearch::edit() {
  const std::vector<EdgeId>& edges = scorer_.edges();
  const int count = random_.chance(0.3) ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    const EdgeId edge = edges[random_.below(edges.size())];
    evaluator_.set_mode(edge, other_mode(evaluator_.mode(edge)));
  }
}

void LocalSearch::edit_class() {
  const std::vector<EdgeId>& members = classes_[random_.below(classes_.size())];
  const Mode mode = other_mode(evaluator_.mode(members[random_.below(members.size())]));
  std::size_t begin = 0;
  std::size_t count = members.size();
  if (random_.chance(0.35)) {
    begin = random_.below(members.size());
    count = 1 + random_.below(members.size() - begin);
  }
  evaluator_.set_modes(std::span(members).subspan(begin, count), mode);
}

void LocalSearch::move_operator() {
  const int count = evaluator_.op_count();
  const int from = static_cast<int>(random_.below(static_cast<std::size_t>(count)));
  const int reach = 1 << random_.below(8);
  const int to = random_.chance(0.5) ? from - reach : from + reach;
  evaluator_.move(from, std::clamp(to, 0, count - 1));
}

bool LocalSearch::anneal(Incumbent& incumbent, int64_t steps) {
  // One segment's share of the energy; in the end a twentieth of it.
  const double hot = std::min(0.5, 3.0 / evaluator_.op_count());
  constexpr double kCooling = 0.05;
  constexpr double kShare = 0.01;
  if (scorer_.edges().empty()) return false;
  const Cost before = incumbent.cost();
  restore(evaluator_, incumbent.decisions());
  aims_ = aims(incumbent, kShare);
  double current = energy();
  for (int64_t step = 0; step < steps && !budget_.stopped(); ++step) {
    const double heat =
        hot * std::pow(kCooling, static_cast<double>(step) / static_cast<double>(steps));
    const std::size_t mark = evaluator_.mark();
    const double kind = random_.uniform();
    if (kind < 0.6) {
      edit();
    } else if (kind < 0.8 && !classes_.empty()) {
      edit_class();
    } else {
      move_operator();
    }
    if (evaluator_.mark() == mark) continue;
    const double next = energy();
    budget_.count_evaluated();
    if (next > current && random_.uniform() >= std::exp((current - next) / heat)) {
      evaluator_.undo(mark);
      continue;
    }
    evaluator_.forget();
    current = next;
    if (incumbent.offer(evaluator_, {usage_.peak, evaluator_.time()})) {
      aims_ = aims(incumbent, kShare);
      current = energy();
    }
  }
  return incumbent.cost() != before;
}

}  // namespace magis
