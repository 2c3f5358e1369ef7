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

// A use whose tensor is not there yet where that of `edge` begins to be, and which is made near it:
// in the same chain, or by an operator close to its own.
EdgeId LocalSearch::dropped_near(EdgeId edge) {
  constexpr std::size_t kReach = 4;
  const Problem& problem = evaluator_.problem();
  const OpId producer = problem.producer[problem.edge_tensor[edge]];
  const int from = evaluator_.held_from(edge);
  std::ptrdiff_t distance = 1 + static_cast<std::ptrdiff_t>(random_.below(kReach));
  if (random_.chance(0.5)) distance = -distance;
  OpId other;
  if (holds(evaluator_.mode(edge))) {
    const auto position = evaluator_.position(producer) + distance;
    if (position < 0 || position >= evaluator_.op_count()) return {};
    other = evaluator_.op_at(static_cast<int>(position));
  } else {
    const std::span<const OpId> chain = evaluator_.chain_at(from);
    const auto place = (std::ranges::find(chain, producer) - chain.begin()) + distance;
    if (place < 0 || place >= std::ssize(chain)) return {};
    other = chain[static_cast<std::size_t>(place)];
  }
  const auto results = problem.results[Problem::row(other)];
  if (results.empty()) return {};
  const TensorId tensor = results[random_.below(results.size())];
  const int after = std::max(from, evaluator_.position(other)) + 1;
  const EdgeId use = evaluator_.first_use_from(tensor, after);
  if (!use.valid() || !problem.droppable[use] || holds(evaluator_.mode(use))) return {};
  return evaluator_.held_from(use) > from ? use : EdgeId();
}

// The tensor of one use goes, from where it is held on, and another one stays from there.
std::optional<Edit> LocalSearch::exchange() {
  const std::vector<EdgeId>& edges = scorer_.edges();
  const EdgeId edge = edges[random_.below(edges.size())];
  const int from = evaluator_.held_from(edge);
  if (!evaluator_.problem().droppable[edge] || from + 1 >= evaluator_.use_position(edge)) return {};
  const EdgeId other = dropped_near(edge);
  if (!other.valid()) return {};
  if (evaluator_.mode(edge) == Mode::keep) {
    return ExchangeModes{edge, Mode::recompute, other, Mode::keep};
  }
  const int next = evaluator_.first_need(edge, from + 1);
  const bool again = next < evaluator_.use_position(edge);
  return ExchangeModes{edge, again ? Mode::late(evaluator_.op_at(next)) : Mode::recompute_anew,
                       other, Mode::late(evaluator_.op_at(from))};
}

Edit LocalSearch::propose() {
  constexpr double kExchange = 0.2;
  constexpr int kTries = 4;
  if (random_.chance(kExchange)) {
    for (int i = 0; i < kTries; ++i) {
      if (const std::optional<Edit> edit = exchange()) return *edit;
    }
  }
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
