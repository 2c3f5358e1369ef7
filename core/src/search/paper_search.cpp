#include "search/paper_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/base/hash.h"
#include "magis/schedule/program.h"
#include "search/budget.h"
#include "search/objective.h"
#include "search/paper_regions.h"
#include "search/paper_rules.h"
#include "search/rescheduling.h"
#include "search/split_problem.h"

namespace magis {
namespace {

constexpr double kRelaxation = 1.1;
constexpr std::size_t kMostQueued = 50'000;

// Each holds an order, and little beside it.
std::size_t states_within(Bytes memory, std::size_t operators) {
  constexpr std::size_t kRest = 1'000;
  const std::size_t each = operators * sizeof(OpId) + kRest;
  return std::clamp<std::size_t>(static_cast<std::size_t>(memory) / each, 1, kMostQueued);
}

// Regions that run in parts, nested.
struct Regions {
  std::vector<FissionRegion> enabled;
  uint64_t key = 0;  // equal for isomorphic ones
};

// What a state is: where its gaps stand follows from what is swapped, and from the order.
Decisions without_gaps(Decisions decisions) {
  decisions.gaps.clear();
  return decisions;
}

struct State {
  Cost cost;
  int64_t number = 0;  // in the order in which they were made
  std::shared_ptr<const Regions> regions;
  std::shared_ptr<const std::vector<OpId>> order;
  std::vector<ScheduleStep> dropped = {};  // uses that are made again
  std::vector<Gap> gaps = {};
  // The tree that it was made from, before `mutation`; nothing: the analysis runs again.
  std::shared_ptr<const FissionTree> tree = {};
  std::optional<Mutation> mutation = {};

  Decisions decisions(const Graph& graph) const {
    Decisions made{*order, IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep), gaps};
    for (const ScheduleStep& step : dropped) made.modes[step.edge] = step.mode;
    for (const Gap& gap : gaps) made.modes[gap.use] = Mode::swap;
    return made;
  }
};

class PaperSearch {
 public:
  PaperSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : source_(graph),
        profile_(profile),
        options_(options),
        cpu_start_(process_seconds()),
        budget_(options, static_cast<int>(graph.op_count()),
                [this](const Budget&) { return report(); }),
        ground_(graph, profile),
        regions_(ground_, options),
        problems_(graph, ground_, profile, options.host_memory.value_or(profile.host_memory),
                  options.exact),
        present_(problems_.find({})),
        objective_(options.limit, present_->costs.persistent),
        most_queued_(states_within(options.search_memory, graph.op_count())) {}

  OptimizeResult run() {
    start();
    while (!queue_.empty() && !done()) {
      const State state = *queue_.begin();
      queue_.erase(queue_.begin());
      expand(state);
    }
    return result();
  }

 private:
  struct BetterFirst {
    const Objective* objective;
    bool operator()(const State& a, const State& b) const {
      if (objective->better(a.cost, b.cost)) return true;
      if (objective->better(b.cost, a.cost)) return false;
      return a.number < b.number;
    }
  };

  void start() {
    present_->evaluator.load(program_order(source_));
    State state{.cost = cost_of(present_->evaluator),
                .regions = std::make_shared<const Regions>(),
                .order = std::make_shared<const std::vector<OpId>>(program_order(source_).order)};
    least_time_ = state.cost.time;
    baseline_ = footprint(source_, *lower(source_, program_order(source_)), present_->costs);
    best_ = state;
    seen_.insert(combine(0, present_->hash.value()));
    queue_.insert(std::move(state));
  }

  // Nothing can be better: no operator runs twice, nothing in parts.
  bool perfect() const {
    return objective_.limits_memory() && objective_.met(best_.cost) &&
           best_.cost.time <= least_time_;
  }
  bool done() const { return perfect() || budget_.stopped(); }

  bool report() {
    if (!options_.progress) return true;
    return options_.progress({.best_peak = best_.cost.peak + present_->costs.persistent,
                              .best_seconds = to_seconds(best_.cost.time),
                              .met = objective_.met(best_.cost),
                              .states_scored = budget_.scored(),
                              .states_evaluated = budget_.evaluated(),
                              .elapsed = budget_.elapsed()});
  }

  static Cost cost_of(const Evaluator& evaluator) {
    return {evaluator.peak(), evaluator.time() + evaluator.exposed()};
  }

  // ---- successors

  void expand(const State& state) {
    present_ = problems_.find(state.regions->enabled);
    MAGIS_CHECK(present_ != nullptr, "regions that were split cannot be split again");
    const Decisions decisions = state.decisions(present_->graph);
    if (options_.fission) mutate(state, decisions);
    if (done()) return;
    present_->evaluator.load(decisions);
    present_->hash.load(without_gaps(decisions));
    for (const ScheduleStep& step :
         schedule_steps(present_->evaluator, options_.paper.naive_schedule_rules)) {
      if (done()) return;
      apply(state, step);
    }
  }

  // The same schedule with one use in another mode.
  void apply(const State& state, const ScheduleStep& step) {
    budget_.count_scored();
    Evaluator& evaluator = present_->evaluator;
    const Mode before = evaluator.mode(step.edge);
    const std::size_t mark = evaluator.mark();
    present_->hash.set_mode(step.edge, step.mode);
    const uint64_t hash = combine(state.regions->key, present_->hash.value());
    present_->hash.set_mode(step.edge, before);
    if (!seen_.insert(hash).second) return;
    evaluator.set_mode(step.edge, step.mode);
    place_swaps(evaluator);
    if (evaluator.feasible()) {
      State next = successor(state);
      next.dropped = state.dropped;
      if (step.mode == Mode::recompute) {
        next.dropped.push_back(step);
      } else if (before == Mode::recompute) {
        std::erase_if(next.dropped, [&](const auto& other) { return other.edge == step.edge; });
      }
      next.order = state.order;
      const OpId reader = present_->problem.edge_op[step.edge];
      const OpId previous = evaluator.op_at(evaluator.previous_position(step.edge));
      settle(next, present_->graph.loop_of(reader), {{{reader}, {previous}}});
      const bool inside = present_->graph.loop_of(reader).valid();
      if (inside) next.tree = tree_;
      offer(std::move(next));
    }
    evaluator.undo(mark);
  }

  State successor(const State& state) {
    State next;
    next.number = ++made_;
    next.regions = state.regions;
    return next;
  }

  // Puts the schedule that the evaluator holds in order again around what changed, and takes its
  // cost.
  void settle(State& state, LoopId body, const std::vector<std::vector<OpId>>& changed) {
    budget_.count_evaluated();
    budget_.count_work(kReschedulingWork * present_->problem.op_count());
    const Evaluator& held = present_->evaluator;
    std::optional<Decisions> better = rescheduled(held, present_->trial, scheduler_, body, changed);
    if (better && present_->trial.peak() <= held.peak() && present_->trial.time() <= held.time()) {
      state.cost = cost_of(present_->trial);
      state.order = std::make_shared<const std::vector<OpId>>(std::move(better->order));
      state.gaps = std::move(better->gaps);
    } else {
      state.cost = cost_of(held);
      state.gaps = held.decisions().gaps;
    }
  }

  void offer(State state) {
    if (objective_.better(state.cost, best_.cost)) best_ = state;
    if (!better_than_relaxed(state.cost, best_.cost)) return;
    queue_.insert(std::move(state));
    if (queue_.size() > most_queued_) queue_.erase(std::prev(queue_.end()));
  }

  // BetterThan of Alg. 3.
  bool better_than_relaxed(const Cost& a, const Cost& b) const {
    const Bytes persistent = present_->costs.persistent;
    const auto limited = [&](const Cost& cost) {
      return objective_.limits_memory() ? static_cast<double>(cost.peak + persistent)
                                        : static_cast<double>(cost.time);
    };
    const auto other = [&](const Cost& cost) {
      return objective_.limits_memory() ? static_cast<double>(cost.time)
                                        : static_cast<double>(cost.peak + persistent);
    };
    const auto limit = objective_.limits_memory()
                           ? static_cast<double>(objective_.peak_limit() + persistent)
                           : static_cast<double>(objective_.time_limit());
    return std::pair(std::max(limited(a), limit), other(a)) <
           std::pair(std::max(kRelaxation * limited(b), limit), kRelaxation * other(b));
  }

  // ---- the fission tree

  void mutate(const State& state, const Decisions& decisions) {
    const std::shared_ptr<SplitProblem> from = present_;
    tree_ = tree_of(state, decisions);
    for (const Mutation& mutation : mutations(*tree_, PartChoice::divisors)) {
      if (mutation.kind == MutationKind::mutate_back) continue;  // not in the paper
      if (done()) break;
      apply(state, *from, decisions, mutation);
    }
    present_ = from;
  }

  std::shared_ptr<const FissionTree> tree_of(const State& state, const Decisions& decisions) {
    if (state.tree && state.mutation) {
      return std::make_shared<const FissionTree>(
          magis::apply(*state.tree, *state.mutation, PartChoice::divisors));
    }
    if (state.tree) return state.tree;
    budget_.count_work(kAnalysisWork * static_cast<int64_t>(source_.op_count()));
    return std::make_shared<const FissionTree>(regions_.tree(
        ground_.hotspots(present_->graph, decisions, present_->costs), state.regions->enabled));
  }

  void apply(const State& state, const SplitProblem& from, const Decisions& decisions,
             const Mutation& mutation) {
    budget_.count_scored();
    const FissionTree mutated = magis::apply(*tree_, mutation, PartChoice::divisors);
    auto regions = std::make_shared<Regions>();
    regions->enabled = enabled_regions(mutated);
    regions->key = regions_.key(regions->enabled);
    budget_.count_work(kSplittingWork * static_cast<int64_t>(source_.op_count()));
    if (why_invalid(ground_.axes(), regions->enabled)) return;
    std::shared_ptr<SplitProblem> to = problems_.find(regions->enabled);
    if (!to) return;
    present_ = std::move(to);
    carry_over(from, decisions, *present_);
    place_swaps(present_->evaluator);
    Decisions carried = present_->evaluator.decisions();
    present_->hash.load(without_gaps(carried));
    if (!present_->evaluator.feasible()) return;
    if (!seen_.insert(combine(regions->key, present_->hash.value())).second) return;
    State next = successor(state);
    next.regions = std::move(regions);
    next.tree = tree_;
    next.mutation = mutation;
    for (std::size_t e = 0; e < carried.modes.size(); ++e) {
      if (!holds(carried.modes[EdgeId(e)])) {
        next.dropped.push_back({EdgeId(e), carried.modes[EdgeId(e)]});
      }
    }
    next.order = std::make_shared<const std::vector<OpId>>(std::move(carried.order));
    settle(next, LoopId(), loops_of_the_step());
    offer(std::move(next));
  }

  // What a mutation of the tree changes: each outermost loop.
  std::vector<std::vector<OpId>> loops_of_the_step() const {
    std::vector<std::vector<OpId>> loops;
    for (const Loop& loop : present_->graph.loops()) {
      if (!loop.parent.valid()) loops.push_back({loop.begin});
    }
    return loops;
  }

  // ---- the end

  OptimizeResult result() {
    const std::shared_ptr<SplitProblem> found = problems_.find(best_.regions->enabled);
    OptimizeResult result;
    result.regions = best_.regions->enabled;
    if (found->split) result.split = std::make_shared<const Graph>(*found->split);
    result.decisions = best_.decisions(found->graph);
    const std::optional<Program> program = lower(found->graph, result.decisions);
    MAGIS_CHECK(program.has_value(), "the schedule recomputes what cannot be recomputed");
    result.baseline = baseline_;
    result.found = footprint(found->graph, *program, found->costs);
    MAGIS_CHECK(result.found.transient_peak == best_.cost.peak,
                "promised " << best_.cost.peak << ", simulated " << result.found.transient_peak);
    result.bound = bound(found->costs.host_memory > 0);
    result.met = objective_.met(best_.cost);
    result.stop_reason = budget_.reason().value_or(StopReason::converged);
    result.states_scored = budget_.scored();
    result.states_evaluated = budget_.evaluated();
    found->evaluator.load(result.decisions);
    result.recomputed = found->evaluator.recomputed_operators();
    result.swapped = found->evaluator.gap_count();
    result.wall_seconds = budget_.elapsed();
    result.cpu_seconds = process_seconds() - cpu_start_;
    return result;
  }
  LowerBound bound(bool swap) const {
    if (options_.fission) return lower_bound_with_fission(source_, profile_, swap);
    return lower_bound(source_, make_cost_table(source_, profile_), {.swap = swap});
  }

  // Nanoseconds an operator: rounds end on time, though not to the point.
  static constexpr int64_t kReschedulingWork = 500;
  static constexpr int64_t kAnalysisWork = 50'000;
  static constexpr int64_t kSplittingWork = 5'000;

  const Graph& source_;
  const DeviceProfile& profile_;
  const OptimizeOptions& options_;
  const Seconds cpu_start_;
  Budget budget_;
  const FissionGround ground_;
  PaperRegions regions_;
  SplitProblems problems_;
  std::shared_ptr<SplitProblem> present_;  // of the state at hand
  const Objective objective_;
  Picoseconds least_time_ = 0;
  Footprint baseline_;
  IncrementalScheduler scheduler_{rescheduling_options()};
  std::shared_ptr<const FissionTree> tree_;  // of the state being expanded
  const std::size_t most_queued_;
  std::set<State, BetterFirst> queue_{BetterFirst{&objective_}};
  std::unordered_set<uint64_t> seen_;
  State best_;
  int64_t made_ = 0;
};

}  // namespace

Strategy parse_strategy(std::string_view name) {
  if (name == "default") return Strategy::standard;
  if (name == "paper") return Strategy::paper;
  throw UserError("unknown strategy \"" + std::string(name) + "\"; choose default or paper");
}

void check_strategy(const OptimizeOptions& options) {
  if (options.strategy == Strategy::paper) {
    if (options.batch_parts > 0) {
      throw UserError("strategy \"paper\" chooses the parts itself: leave batch_parts out");
    }
    if (options.paper.max_level < 1) throw UserError("max_level must be at least 1");
  } else if (options.paper != PaperOptions{}) {
    throw UserError(
        "random_fission, naive_schedule_rules and max_level belong to strategy \"paper\"");
  }
}

OptimizeResult optimize_as_published(const Graph& graph, const DeviceProfile& profile,
                                     const OptimizeOptions& options) {
  return PaperSearch(graph, profile, options).run();
}

}  // namespace magis
