#include "search/paper_rules.h"

#include <algorithm>
#include <map>

#include "magis/schedule/placement.h"

namespace magis {
namespace {

// It is there from the previous use on, and something runs in between.
bool waits(const Evaluator& evaluator, EdgeId edge) {
  const int previous = evaluator.previous_position(edge);
  return evaluator.held_from(edge) == previous && evaluator.use_position(edge) > previous + 1;
}

// What is on the host was stored where it was made: it is not made again before that use or after.
bool is_made_again(const Evaluator& evaluator, TensorId tensor) {
  const Problem& problem = evaluator.problem();
  return std::ranges::any_of(problem.uses[Problem::row(tensor)],
                             [&](EdgeId use) { return !holds(evaluator.mode(use)); });
}

bool spans(const Evaluator& evaluator, EdgeId edge, int position) {
  return evaluator.held_from(edge) < position && position < evaluator.use_position(edge);
}

// ---- placement

struct Body {
  LoopId loop;
  int first = 0;  // position of its first operator
  int end = 0;
  std::vector<EdgeId> swapped;
};

std::vector<Body> bodies_with_swaps(const Evaluator& evaluator) {
  const Graph& graph = *evaluator.problem().graph;
  std::map<LoopId, Body> bodies;
  for (const Gap& gap : evaluator.decisions().gaps) {
    const LoopId loop = graph.loop_of(evaluator.problem().edge_op[gap.use]);
    bodies[loop].swapped.push_back(gap.use);
  }
  std::vector<Body> found;
  for (auto& [loop, body] : bodies) {
    body.loop = loop;
    body.first = loop.valid() ? evaluator.position(graph.loop(loop).begin) + 1 : 0;
    body.end = loop.valid() ? evaluator.position(graph.loop(loop).end) : evaluator.op_count();
    found.push_back(std::move(body));
  }
  return found;
}

class BodyPlacement {
 public:
  BodyPlacement(Evaluator& evaluator, const Body& body)
      : evaluator_(evaluator), graph_(*evaluator.problem().graph), body_(body) {}

  void run() {
    measure();
    std::vector<CopyJob> jobs;
    for (const EdgeId edge : body_.swapped) jobs.push_back(job_of(edge));
    const std::vector<CopyPlacement> placed = place_copies(start_, border_, jobs);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const EdgeId edge = body_.swapped[j];
      const Gap gap = placed[j].hidden
                          ? Gap{edge, evaluator_.op_at(body_.first + placed[j].release),
                                evaluator_.op_at(body_.first + placed[j].load)}
                          : evaluator_.widest_gap(edge);
      if (gap.use.valid() && evaluator_.gap(edge) != gap) evaluator_.set_gap(gap);
    }
  }

 private:
  // Times of one iteration; between which operators copies may be issued.
  void measure() {
    int64_t iterations = 1;
    for (LoopId loop = body_.loop; loop.valid(); loop = graph_.loop(loop).parent) {
      iterations *= graph_.loop(loop).iterations();
    }
    start_.assign(1, 0);
    for (int k = body_.first; k < body_.end; ++k) {
      const OpId op = evaluator_.op_at(k);
      const Picoseconds time = evaluator_.problem().time[op] + evaluator_.chain_time_at(k);
      start_.push_back(start_.back() + time / iterations);
      border_.push_back(graph_.loop_of(op) == body_.loop && !ends_loop(op) ? 1 : 0);
    }
    border_.push_back(0);
  }
  bool ends_loop(OpId op) const {
    const LoopId loop = graph_.bounded_loop(op);
    return loop.valid() && graph_.loop(loop).end == op;
  }

  CopyJob job_of(EdgeId edge) const {
    const Problem& problem = evaluator_.problem();
    const TensorId tensor = problem.edge_tensor[edge];
    // What a loop puts together is complete where it ends.
    const LoopId bounded = graph_.bounded_loop(problem.producer[tensor]);
    const OpId maker = bounded.valid() ? graph_.loop(bounded).end : problem.producer[tensor];
    const bool stored_before =
        std::ranges::any_of(problem.uses[Problem::row(tensor)], [&](EdgeId other) {
          return evaluator_.mode(other) == Mode::swap &&
                 evaluator_.use_position(other) < evaluator_.use_position(edge);
        });
    const int loaded = evaluator_.position(evaluator_.gap(edge).load);
    return {.made = evaluator_.position(maker) - body_.first,
            .free_from = evaluator_.previous_position(edge) + 1 - body_.first,
            .use = evaluator_.first_need(edge, loaded) - body_.first,
            .store = stored_before ? 0 : problem.copy_time[tensor],
            .load = problem.copy_time[tensor]};
  }

  Evaluator& evaluator_;
  const Graph& graph_;
  const Body& body_;
  std::vector<int64_t> start_;
  std::vector<uint8_t> border_;
};

}  // namespace

bool may_set_mode(const Evaluator& evaluator, EdgeId edge, Mode mode) {
  const Problem& problem = evaluator.problem();
  const TensorId tensor = problem.edge_tensor[edge];
  if (mode == Mode::keep) return evaluator.mode(edge) != Mode::keep;
  if (!problem.managed[tensor] || evaluator.mode(edge) != Mode::keep) return false;
  if (!waits(evaluator, edge)) return false;
  if (mode == Mode::swap) {
    return problem.costs->host_memory > 0 && !is_made_again(evaluator, tensor) &&
           evaluator.widest_gap(edge).use.valid();
  }
  return problem.droppable[edge] && !evaluator.is_swapped(tensor);
}

std::vector<ScheduleStep> schedule_steps(const Evaluator& evaluator, bool everywhere) {
  std::vector<ScheduleStep> steps;
  const Problem& problem = evaluator.problem();
  const int peak = evaluator.peak_position();
  for (std::size_t e = 0; e < problem.edge_op.size(); ++e) {
    const EdgeId edge(e);
    if (!problem.managed[problem.edge_tensor[edge]]) continue;
    if (may_set_mode(evaluator, edge, Mode::keep)) {
      steps.push_back({edge, Mode::keep});
      continue;
    }
    if (!everywhere && !spans(evaluator, edge, peak)) continue;
    for (const Mode mode : {Mode::recompute, Mode::swap}) {
      if (may_set_mode(evaluator, edge, mode)) steps.push_back({edge, mode});
    }
  }
  return steps;
}

void place_swaps(Evaluator& evaluator) {
  if (evaluator.gap_count() == 0) return;
  for (const Body& body : bodies_with_swaps(evaluator)) BodyPlacement(evaluator, body).run();
}

}  // namespace magis
