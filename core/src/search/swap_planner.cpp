#include "search/swap_planner.h"

#include <algorithm>

namespace magis {
namespace {

std::size_t index_of(LoopId loop) {
  return loop.valid() ? static_cast<std::size_t>(loop.index) + 1 : 0;
}

}  // namespace

SwapPlanner::SwapPlanner(Evaluator& evaluator, Budget& budget)
    : evaluator_(evaluator),
      problem_(evaluator.problem()),
      budget_(budget),
      chosen_(problem_.edge_op.size(), 0) {}

bool SwapPlanner::plan(Bytes target) {
  target_ = target;
  find_bodies();
  present_overflow_ = evaluator_.usage(target).overflow;
  if (present_overflow_ == 0) return true;
  overflow_.focus(evaluator_, target);
  collect();
  while (!heap_.empty() && !budget_.stopped()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate candidate = heap_.back();
    heap_.pop_back();
    candidate.score = score(candidate.edge);
    if (candidate.score <= 0) continue;
    if (!heap_.empty() && candidate < heap_.front()) {
      heap_.push_back(candidate);
      std::push_heap(heap_.begin(), heap_.end());
      continue;
    }
    if (!swap(candidate.edge)) continue;
    if (present_overflow_ == 0) return true;
    overflow_.focus(evaluator_, target);
  }
  return false;
}

void SwapPlanner::tighten(Bytes allowed) {
  find_bodies();
  for (std::size_t b = 0; b < bodies_.size(); ++b) {
    const std::vector<EdgeId> swapped = bodies_[b].swapped;
    for (const EdgeId edge : swapped) {
      const std::size_t mark = evaluator_.mark();
      unchoose(edge);
      evaluator_.set_mode(edge, Mode::keep);
      const bool fits = place_around(b) && evaluator_.peak() <= allowed;
      budget_.count_evaluated();
      if (!fits) {
        evaluator_.undo(mark);
        choose(edge);
        place_around(b);
      }
    }
  }
}

void SwapPlanner::settle(Bytes allowed) {
  if (evaluator_.gap_count() == 0) return;
  count_chains_ = true;
  const std::size_t mark = evaluator_.mark();
  const bool placed = find_bodies();
  count_chains_ = false;
  budget_.count_evaluated();
  if (!placed || !evaluator_.feasible() || evaluator_.peak() > allowed) evaluator_.undo(mark);
}

// ---- bodies and their times

bool SwapPlanner::find_bodies() {
  const Graph& graph = *problem_.graph;
  bodies_.assign(graph.loops().size() + 1, {});
  bodies_[0].end = evaluator_.op_count();
  for (std::size_t l = 0; l < graph.loops().size(); ++l) {
    const LoopId id(l);
    Body& body = bodies_[index_of(id)];
    body.loop = id;
    body.first = evaluator_.position(graph.loop(id).begin) + 1;
    body.end = evaluator_.position(graph.loop(id).end);
    for (LoopId around = id; around.valid(); around = graph.loop(around).parent) {
      body.iterations *= static_cast<double>(graph.loop(around).iterations());
    }
  }
  std::ranges::fill(chosen_, uint8_t{0});
  if (evaluator_.gap_count() > 0) {
    for (const Gap& gap : evaluator_.decisions().gaps) choose(gap.use);
  }
  bool hidden = true;
  for (Body& body : bodies_) hidden = place(body) && hidden;  // each gets its times
  return hidden;
}

std::size_t SwapPlanner::body_index(EdgeId edge) const {
  return index_of(problem_.graph->loop_of(problem_.edge_op[edge]));
}

// An inner loop that copies keeps the link busy: none of its time is for others.
void SwapPlanner::time_body(Body& body) {
  const Graph& graph = *problem_.graph;
  body.start.assign(1, 0);
  body.border.clear();
  for (int k = body.first; k < body.end; ++k) {
    const OpId op = evaluator_.op_at(k);
    bool link_busy = false;
    for (LoopId loop = graph.loop_of(op); loop != body.loop; loop = graph.loop(loop).parent) {
      link_busy = link_busy || !bodies_[index_of(loop)].swapped.empty();
    }
    Picoseconds time = problem_.time[op];
    if (count_chains_) time += evaluator_.chain_time_at(k);
    const double once = link_busy ? 0 : static_cast<double>(time) / body.iterations;
    body.start.push_back(body.start.back() + static_cast<Picoseconds>(once));
    // The first operator belongs to the body, as those do that read in it.
    body.border.push_back(may_bound_gap(graph, op, evaluator_.op_at(body.first)) ? 1 : 0);
  }
  body.border.push_back(0);
  body.timed = true;
}

CopyJob SwapPlanner::job_of(EdgeId edge, const Body& body) const {
  const Graph& graph = *problem_.graph;
  const TensorId tensor = problem_.edge_tensor[edge];
  // What a loop puts together is complete where it ends.
  const LoopId bounded = graph.bounded_loop(problem_.producer[tensor]);
  const OpId maker = bounded.valid() ? graph.loop(bounded).end : problem_.producer[tensor];
  CopyJob job;
  job.made = evaluator_.position(maker) - body.first;
  job.free_from = evaluator_.previous_position(edge) + 1 - body.first;
  // Chains may read it before its use, once it is on its way.
  const int need = evaluator_.mode(edge) == Mode::swap
                       ? evaluator_.first_need(edge, evaluator_.position(evaluator_.gap(edge).load))
                       : evaluator_.use_position(edge);
  job.use = need - body.first;
  job.store = is_stored_before(edge) ? 0 : problem_.copy_time[tensor];
  job.load = problem_.copy_time[tensor];
  return job;
}

// An earlier use is swapped: the host has the tensor by now.
bool SwapPlanner::is_stored_before(EdgeId edge) const {
  const std::size_t row = Problem::row(problem_.edge_tensor[edge]);
  return std::ranges::any_of(problem_.uses[row], [&](EdgeId other) {
    return chosen_[other] != 0 && evaluator_.use_position(other) < evaluator_.use_position(edge);
  });
}

// ---- candidates

// Its store is issued where the tensor is made: what is dropped and made again before is left
// alone.
bool SwapPlanner::may_swap(EdgeId edge) const {
  if (!problem_.swappable[edge] || evaluator_.mode(edge) != Mode::keep) return false;
  const int use = evaluator_.use_position(edge);
  const int previous = evaluator_.previous_position(edge);
  if (use - previous < 3 || evaluator_.held_from(edge) != previous) return false;
  const std::size_t row = Problem::row(problem_.edge_tensor[edge]);
  return std::ranges::all_of(problem_.uses[row], [&](EdgeId other) {
    return evaluator_.use_position(other) >= use || holds(evaluator_.mode(other));
  });
}

void SwapPlanner::collect() {
  heap_.clear();
  for (std::size_t e = 0; e < problem_.edge_op.size(); ++e) {
    const EdgeId edge(e);
    if (!may_swap(edge)) continue;
    const double worth = score(edge);
    if (worth > 0) heap_.push_back({worth, edge});
  }
  std::make_heap(heap_.begin(), heap_.end());
  budget_.count_scored(static_cast<int64_t>(heap_.size()));
}

// Overflow taken off for a second of copying, if the other copies stayed where they are; 0 if there
// is no time.
double SwapPlanner::score(EdgeId edge) {
  const Body& body = body_of(edge);
  const CopyJob job = job_of(edge, body);
  Picoseconds stored = body.start[static_cast<std::size_t>(job.made) + 1];
  if (job.store > 0) {
    const auto after =
        std::ranges::upper_bound(body.stores, job.made, {}, &std::pair<int, Picoseconds>::first);
    if (after != body.stores.begin()) stored = std::max(stored, std::prev(after)->second);
    stored += job.store;
  }
  Picoseconds load = body.start[static_cast<std::size_t>(job.use)];
  const auto next =
      std::ranges::lower_bound(body.loads, job.use, {}, &std::pair<int, Picoseconds>::first);
  if (next != body.loads.end()) load = std::min(load, next->second);
  load -= job.load;
  if (load <= stored) return 0;
  const auto release = std::ranges::lower_bound(body.start, stored) - body.start.begin();
  const auto begin =
      static_cast<std::size_t>(body.first + std::max<std::ptrdiff_t>(release, job.free_from));
  const auto end = static_cast<std::size_t>(
      body.first + (std::ranges::upper_bound(body.start, load) - body.start.begin()) - 1);
  if (begin >= end) return 0;
  const Bytes bytes = problem_.bytes[problem_.edge_tensor[edge]];
  const int64_t relief = overflow_.relief(begin, end, bytes);
  return static_cast<double>(relief) / static_cast<double>(job.store + job.load);
}

// ---- edits

void SwapPlanner::choose(EdgeId edge) {
  Body& body = body_of(edge);
  if (body.swapped.empty()) forget_times_around(body);
  body.swapped.push_back(edge);
  chosen_[edge] = 1;
}

void SwapPlanner::unchoose(EdgeId edge) {
  Body& body = body_of(edge);
  std::erase(body.swapped, edge);
  if (body.swapped.empty()) forget_times_around(body);
  chosen_[edge] = 0;
}

// The link becomes busy, or free, while the body runs.
void SwapPlanner::forget_times_around(const Body& body) {
  for (LoopId loop = body.loop; loop.valid();) {
    loop = problem_.graph->loop(loop).parent;
    bodies_[index_of(loop)].timed = false;
  }
}

bool SwapPlanner::swap(EdgeId edge) {
  const TensorId tensor = problem_.edge_tensor[edge];
  const Bytes more = evaluator_.is_swapped(tensor) ? 0 : problem_.host_bytes[tensor];
  if (evaluator_.host_bytes() + more > problem_.costs->host_memory) return false;
  const std::size_t index = body_index(edge);
  const std::size_t mark = evaluator_.mark();
  choose(edge);
  if (place_around(index) && evaluator_.feasible()) {
    budget_.count_evaluated();
    const int64_t overflow = evaluator_.usage(target_).overflow;
    if (overflow < present_overflow_) {
      present_overflow_ = overflow;
      return true;
    }
  }
  evaluator_.undo(mark);
  unchoose(edge);
  place_around(index);
  return false;
}

bool SwapPlanner::place_around(std::size_t index) {
  while (true) {
    Body& body = bodies_[index];
    if (!place(body)) return false;
    if (index == 0) return true;
    index = index_of(problem_.graph->loop(body.loop).parent);
  }
}

bool SwapPlanner::place(Body& body) {
  if (!body.timed) time_body(body);
  std::vector<CopyJob> jobs;
  for (const EdgeId edge : body.swapped) jobs.push_back(job_of(edge, body));
  const std::vector<CopyPlacement> placed = place_copies(body.start, body.border, jobs);
  if (!std::ranges::all_of(placed, &CopyPlacement::hidden)) return false;
  body.stores.clear();
  body.loads.clear();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const EdgeId edge = body.swapped[j];
    const Gap gap{edge, evaluator_.op_at(body.first + placed[j].release),
                  evaluator_.op_at(body.first + placed[j].load)};
    if (evaluator_.mode(edge) != Mode::swap || evaluator_.gap(edge) != gap) {
      evaluator_.set_gap(gap);
    }
    if (jobs[j].store > 0) body.stores.emplace_back(jobs[j].made, placed[j].store_end);
    body.loads.emplace_back(jobs[j].use, placed[j].load_start);
  }
  std::ranges::sort(body.stores);
  std::ranges::sort(body.loads);
  return true;
}

}  // namespace magis
