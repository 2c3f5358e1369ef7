#include "search/greedy.h"

#include <algorithm>
#include <cmath>

namespace magis {

Greedy::Greedy(Evaluator& evaluator, Budget& budget, Random& random)
    : evaluator_(evaluator), budget_(budget), random_(random), scorer_(evaluator.problem()) {
  Picoseconds total = 0;
  for (const Picoseconds time : evaluator.problem().time) total += time;
  least_time_ = total / 50'000 + 1;
}

// The heap's top is the best; equal ones in order of edge, so that nothing depends on the heap's
// layout.
bool Greedy::Candidate::operator<(const Candidate& other) const {
  if (priority != other.priority) return priority < other.priority;
  return edit.edge > other.edit.edge;
}

Greedy::Priority Greedy::priority(const Gain& gain, double luck) const {
  const double time = static_cast<double>(std::max<Picoseconds>(gain.time, 0) + least_time_);
  const double rate = luck * static_cast<double>(gain.relief) / time;
  const double drop = luck * static_cast<double>(std::max<Bytes>(gain.drop, 0));
  switch (options_.rule) {
    case GreedyRule::relief_per_time:
      break;
    case GreedyRule::largest_drop:
      return {drop, rate};
    case GreedyRule::drop_per_time:
      return {drop / time, rate};
  }
  return {rate, 0};
}

double Greedy::lucky(double noise) {
  return noise > 0 ? std::exp(noise * (2 * random_.uniform() - 1)) : 1;
}

void Greedy::collect(Bytes target) {
  scorer_.focus(evaluator_, target);
  heap_.clear();
  for (const auto& [edit, gain] : scorer_.score_all(evaluator_, budget_)) {
    if (evaluator_.time() + gain.time > options_.time_limit) continue;
    const double luck = lucky(options_.noise);
    heap_.push_back({priority(gain, luck), edit, luck, 0});
  }
  std::make_heap(heap_.begin(), heap_.end());
}

// Takes the candidate that is best by its exact priority. `attempt` applies an edit and makes its
// priority exact, or says that it is not worth it. False if none is left.
template <class Attempt>
bool Greedy::take_best(Attempt&& attempt) {
  while (!heap_.empty() && !budget_.stopped()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate candidate = heap_.back();
    heap_.pop_back();
    const std::size_t mark = evaluator_.mark();
    const bool worth_it = attempt(candidate);
    const bool exact = candidate.version == version_;
    if (worth_it && (exact || heap_.empty() || !(candidate < heap_.front()))) {
      ++version_;
      return true;
    }
    evaluator_.undo(mark);
    if (!worth_it) continue;
    candidate.version = version_;
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }
  return false;
}

bool Greedy::drop_best(Bytes target) {
  Evaluator::Usage usage;  // of the last attempt
  const bool taken = take_best([&](Candidate& candidate) {
    const Picoseconds time = evaluator_.time();
    evaluator_.set_mode(candidate.edit.edge, candidate.edit.mode);
    usage = evaluator_.usage(target);
    budget_.count_evaluated();
    const Gain gain{usage_.overflow - usage.overflow, usage_.peak - usage.peak,
                    evaluator_.time() - time};
    candidate.priority = priority(gain, candidate.luck);
    return evaluator_.feasible() && gain.relief > 0 && evaluator_.time() <= options_.time_limit;
  });
  if (taken) usage_ = usage;
  return taken;
}

// Until nothing exceeds the target, or nothing helps any more.
bool Greedy::meet_target(Bytes target, Incumbent& incumbent) {
  usage_ = evaluator_.usage(target);
  while (usage_.overflow > 0 && !budget_.stopped()) {
    collect(target);
    bool progress = false;
    while (usage_.overflow > 0 && drop_best(target)) {
      progress = true;
      evaluator_.forget();
      // What is still above the target is for the case that time is up; what waits for copies has
      // to be found out first, which takes long.
      if (evaluator_.gap_count() == 0 || usage_.overflow == 0) {
        incumbent.offer(evaluator_, {usage_.peak, evaluator_.time()});
      }
    }
    if (!progress) return false;
  }
  return usage_.overflow == 0;
}

bool Greedy::descend(const GreedyOptions& options, Incumbent& incumbent) {
  options_ = options;
  ++version_;
  Bytes target = options.goal;
  do {
    if (options.step > 0) {
      const double lower = (1 - options.step) * static_cast<double>(evaluator_.peak());
      target = std::max(options.goal, static_cast<Bytes>(lower));
    }
    if (!meet_target(target, incumbent)) return false;
  } while (target > options.goal && !budget_.stopped());
  return evaluator_.peak() <= options.goal;
}

namespace {

// How long the tensor is away; swapping is dearest where it is priced.
int rank(Mode mode) {
  switch (mode.kind()) {
    case Mode::keep:
      return 0;
    case Mode::recompute:
      return 1;
    case Mode::recompute_late:
      return 2;
    case Mode::recompute_anew:
      return 3;
    case Mode::swap:
      break;
  }
  return 4;
}

}  // namespace

// By `mode` the tensor would be there sooner than it is.
bool Greedy::is_sooner(EdgeId edge, Mode mode) const {
  const Mode now = evaluator_.mode(edge);
  if (rank(mode) != rank(now)) return rank(mode) < rank(now);
  return mode.kind() == Mode::recompute_late &&
         evaluator_.position(mode.late_from()) < evaluator_.position(now.late_from());
}

// Earlier by one chain; and as early as there seems to be room for it, in one step.
void Greedy::list_returns(EdgeId edge, Bytes allowed) {
  returns_.clear();
  for (const Mode mode : {Mode::keep, Mode::recompute}) {
    if (is_sooner(edge, mode)) returns_.push_back(mode);
  }
  if (holds(evaluator_.mode(edge)) || evaluator_.mode(edge) == Mode::recompute) return;
  const int held = evaluator_.held_from(edge);
  const int last = evaluator_.last_need(edge, held);
  if (last == evaluator_.use_position(edge)) return;
  returns_.push_back(Mode::late(evaluator_.op_at(last)));
  const Bytes bytes = evaluator_.problem().bytes[evaluator_.problem().edge_tensor[edge]];
  int room = held;
  while (room > evaluator_.previous_position(edge) + 1 &&
         evaluator_.bytes_at(room - 1) + bytes <= allowed) {
    --room;
  }
  const int first = evaluator_.first_need(edge, room);
  if (first < last) returns_.push_back(Mode::late(evaluator_.op_at(first)));
}

// What it saves; 0 if it does not fit.
Picoseconds Greedy::try_return(const ModeEdit& edit, Bytes allowed) {
  const Picoseconds time = evaluator_.time();
  evaluator_.set_mode(edit.edge, edit.mode);
  budget_.count_evaluated();
  const bool fits = evaluator_.feasible() && evaluator_.peak() <= allowed;
  return fits ? std::max<Picoseconds>(0, time - evaluator_.time()) : 0;
}

void Greedy::collect_returns(Bytes allowed, double noise) {
  heap_.clear();
  for (const EdgeId edge : scorer_.edges()) {
    if (evaluator_.mode(edge) == Mode::swap && !evaluator_.problem().swaps_for_time()) continue;
    list_returns(edge, allowed);
    for (const Mode mode : returns_) {
      const std::size_t mark = evaluator_.mark();
      const Picoseconds saved = try_return({edge, mode}, allowed);
      evaluator_.undo(mark);
      if (budget_.stopped()) return;
      if (saved == 0) continue;
      const double luck = lucky(noise);
      heap_.push_back({{luck * static_cast<double>(saved), 0}, {edge, mode}, luck, version_});
    }
  }
  std::make_heap(heap_.begin(), heap_.end());
}

bool Greedy::return_best(Bytes allowed) {
  return take_best([&](Candidate& candidate) {
    if (!is_sooner(candidate.edit.edge, candidate.edit.mode)) return false;
    const Picoseconds saved = try_return(candidate.edit, allowed);
    candidate.priority.major = candidate.luck * static_cast<double>(saved);
    return saved > 0;
  });
}

void Greedy::make_anew(int first, int last, bool kept_too) {
  const Problem& problem = evaluator_.problem();
  std::vector<EdgeId> edges;
  for (const EdgeId edge : scorer_.edges()) {
    const int use = evaluator_.use_position(edge);
    if (use < first || use > last || evaluator_.previous_position(edge) + 1 >= use) continue;
    if (!problem.droppable[edge] || evaluator_.is_swapped(problem.edge_tensor[edge])) continue;
    if (kept_too || !holds(evaluator_.mode(edge))) edges.push_back(edge);
  }
  evaluator_.set_modes(edges, Mode::recompute_anew);
  budget_.count_evaluated();
}

void Greedy::tighten(Bytes allowed, double noise) {
  for (bool progress = true; progress && !budget_.stopped();) {
    progress = false;
    ++version_;
    collect_returns(allowed, noise);
    while (return_best(allowed)) {
      progress = true;
      evaluator_.forget();
    }
  }
}

}  // namespace magis
