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
#include "search/paper_rules.h"
#include "search/paper_state.h"
#include "search/phases.h"
#include "search/rescheduling.h"
#include "search/rewriter.h"

namespace magis {
namespace {

constexpr double kRelaxation = 1.1;
constexpr std::size_t kMostQueued = 50'000;
// Rewritten graphs, from one state and in all: each takes as much memory as thousands of states.
constexpr std::size_t kRewrites = 3;
constexpr int kMostSources = 12;

// Each holds an order, and little beside it.
std::size_t states_within(Bytes memory, std::size_t operators) {
  constexpr std::size_t kRest = 1'000;
  const std::size_t each = operators * sizeof(OpId) + kRest;
  return std::clamp<std::size_t>(static_cast<std::size_t>(memory) / each, 1, kMostQueued);
}

class PaperSearch {
 public:
  PaperSearch(const Graph& graph, const DeviceProfile& profile, const OptimizeOptions& options)
      : source_(graph),
        profile_(profile),
        options_(options),
        cpu_start_(process_seconds()),
        budget_(options, static_cast<int>(graph.op_count()),
                [this](const Budget&) { return report(); }),
        source_of_present_(std::make_shared<PaperSource>(
            std::shared_ptr<const Graph>(std::shared_ptr<const Graph>(), &graph), profile,
            options)),
        present_(source_of_present_->problems.find({})),
        objective_(options.limit, present_->costs.persistent),
        most_queued_(states_within(options.search_memory, graph.op_count())) {}

  OptimizeResult run() {
    start();
    while (!queue_.empty() && !done()) {
      const PaperState state = *queue_.begin();
      queue_.erase(queue_.begin());
      expand(state);
    }
    return result();
  }

 private:
  void start() {
    present_->evaluator.load(program_order(source_));
    PaperState state{
        .cost = cost_of(present_->evaluator),
        .source = source_of_present_,
        .regions = std::make_shared<const Regions>(),
        .order = std::make_shared<const std::vector<OpId>>(program_order(source_).order)};
    source_of_present_->least_time = state.cost.time;
    baseline_ = footprint(source_, *lower(source_, program_order(source_)), present_->costs);
    best_ = state;
    seen_.insert(key_of(state));
    queue_.insert(std::move(state));
  }

  // Nothing can be better: no operator runs twice, nothing in parts.
  bool perfect() const {
    return objective_.limits_memory() && objective_.met(best_.cost) &&
           best_.cost.time <= best_.source->least_time &&
           (best_.source->rewritten || !options_.rewrite);
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

  // Of a state with what is decided in present_.
  uint64_t key_of(const PaperState& state) const {
    return combine(combine(state.source->key, state.regions->key), present_->hash.value());
  }

  void expand(const PaperState& state) {
    source_of_present_ = state.source;
    present_ = state.source->problems.find(state.regions->enabled);
    MAGIS_CHECK(present_ != nullptr, "regions that were split cannot be split again");
    const Decisions decisions = state.decisions(present_->graph);
    if (options_.rewrite) rewrite(state, decisions);
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
  void apply(const PaperState& state, const ScheduleStep& step) {
    budget_.count_scored();
    Evaluator& evaluator = present_->evaluator;
    const Mode before = evaluator.mode(step.edge);
    const std::size_t mark = evaluator.mark();
    if (seen_with(state, step, before)) return;
    {
      PhaseTimer timer(phases_.simulate);
      evaluator.set_mode(step.edge, step.mode);
      place_swaps(evaluator);
    }
    if (evaluator.feasible()) {
      PaperState next = successor(state);
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

  bool seen_with(const PaperState& state, const ScheduleStep& step, Mode before) {
    PhaseTimer timer(phases_.hash);
    present_->hash.set_mode(step.edge, step.mode);
    const uint64_t hash = key_of(state);
    present_->hash.set_mode(step.edge, before);
    return repeated(hash);
  }

  bool repeated(uint64_t hash) {
    const bool first = seen_.insert(hash).second;
    repeated_ += !first;
    return !first;
  }

  PaperState successor(const PaperState& state) {
    PaperState next;
    next.number = ++made_;
    next.source = state.source;
    next.regions = state.regions;
    return next;
  }

  // Puts the schedule that the evaluator holds in order again around what changed, and takes its
  // cost.
  void settle(PaperState& state, LoopId body, const std::vector<std::vector<OpId>>& changed) {
    PhaseTimer timer(phases_.schedule);
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

  void offer(PaperState state) {
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

  // ---- rewrite rules

  // One rule at all equal places, where that saves time. Before regions are chosen: in what they
  // cover, nothing is replaced.
  void rewrite(const PaperState& state, const Decisions& decisions) {
    if (!state.regions->enabled.empty() || std::exchange(state.source->rewritten, true) ||
        sources_ == kMostSources) {
      return;
    }
    const std::shared_ptr<SplitProblem> from = present_;
    std::vector<Rewritten> made_graphs = rewritten(*state.source);
    for (Rewritten& made : made_graphs) {
      if (budget_.stopped() || sources_ == kMostSources) break;
      ++sources_;
      budget_.count_scored();
      budget_.count_work(kAnalysisWork * static_cast<int64_t>(source_.op_count()));
      PaperState next = successor(state);
      {
        PhaseTimer timer(phases_.transform);
        next.source = std::make_shared<PaperSource>(
            std::make_shared<const Graph>(std::move(made.graph)), profile_, options_);
        present_ = next.source->problems.find({});
      }
      present_->evaluator.load(program_order(present_->graph));
      next.source->least_time = cost_of(present_->evaluator).time;
      offer_carried(std::move(next), *from, decisions, {made.changed});
    }
    present_ = from;
  }

  std::vector<Rewritten> rewritten(const PaperSource& source) {
    PhaseTimer timer(phases_.transform);
    Rewriter rewriter(*source.graph, profile_,
                      {.exact = options_.exact, .without = options_.without_rules},
                      [this] { return budget_.stopped(); });
    return rewriter.single_steps(kRewrites);
  }

  // ---- the fission tree

  void mutate(const PaperState& state, const Decisions& decisions) {
    const std::shared_ptr<SplitProblem> from = present_;
    {
      PhaseTimer timer(phases_.transform);
      tree_ = tree_of(state, decisions);
    }
    for (const Mutation& mutation : mutations(*tree_, PartChoice::divisors)) {
      if (mutation.kind == MutationKind::mutate_back) continue;  // not in the paper
      if (done()) break;
      apply(state, *from, decisions, mutation);
    }
    present_ = from;
  }

  std::shared_ptr<const FissionTree> tree_of(const PaperState& state, const Decisions& decisions) {
    if (state.tree && state.mutation) {
      return std::make_shared<const FissionTree>(
          magis::apply(*state.tree, *state.mutation, PartChoice::divisors));
    }
    if (state.tree) return state.tree;
    budget_.count_work(kAnalysisWork * static_cast<int64_t>(source_.op_count()));
    return std::make_shared<const FissionTree>(source_of_present_->regions.tree(
        source_of_present_->ground.hotspots(present_->graph, decisions, present_->costs),
        state.regions->enabled));
  }

  void apply(const PaperState& state, const SplitProblem& from, const Decisions& decisions,
             const Mutation& mutation) {
    budget_.count_scored();
    auto regions = std::make_shared<Regions>();
    std::shared_ptr<SplitProblem> to = mutated(state, mutation, *regions);
    if (!to) return;
    present_ = std::move(to);
    PaperState next = successor(state);
    next.regions = std::move(regions);
    next.tree = tree_;
    next.mutation = mutation;
    offer_carried(std::move(next), from, decisions, loops_of_the_step());
  }

  // The graph split as the mutated tree says; null if it cannot be.
  std::shared_ptr<SplitProblem> mutated(const PaperState& state, const Mutation& mutation,
                                        Regions& regions) {
    PhaseTimer timer(phases_.transform);
    regions.enabled = enabled_regions(magis::apply(*tree_, mutation, PartChoice::divisors));
    regions.key = state.source->regions.key(regions.enabled);
    budget_.count_work(kSplittingWork * static_cast<int64_t>(source_.op_count()));
    if (why_invalid(state.source->ground.axes(), regions.enabled)) return nullptr;
    return state.source->problems.find(regions.enabled);
  }

  // The schedule of `from` in another graph, which present_ is, put in order around what changed.
  void offer_carried(PaperState next, const SplitProblem& from, const Decisions& decisions,
                     const std::vector<std::vector<OpId>>& changed) {
    {
      PhaseTimer timer(phases_.simulate);
      carry_over(from, decisions, *present_);
      place_swaps(present_->evaluator);
    }
    Decisions carried = present_->evaluator.decisions();
    if (!present_->evaluator.feasible() || seen_before(next, carried)) return;
    for (std::size_t e = 0; e < carried.modes.size(); ++e) {
      if (!holds(carried.modes[EdgeId(e)])) {
        next.dropped.push_back({EdgeId(e), carried.modes[EdgeId(e)]});
      }
    }
    next.order = std::make_shared<const std::vector<OpId>>(std::move(carried.order));
    settle(next, LoopId(), changed);
    offer(std::move(next));
  }

  bool seen_before(const PaperState& state, const Decisions& carried) {
    PhaseTimer timer(phases_.hash);
    present_->hash.load(without_gaps(carried));
    return repeated(key_of(state));
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
    const std::shared_ptr<SplitProblem> found = best_.source->problems.find(best_.regions->enabled);
    OptimizeResult result;
    result.regions = best_.regions->enabled;
    if (best_.source->graph.get() != &source_) result.rewritten = best_.source->graph;
    result.split = found->split ? std::make_shared<const Graph>(*found->split) : result.rewritten;
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
    result.states_repeated = repeated_;
    result.phases = phases_;
    found->evaluator.load(result.decisions);
    result.recomputed = found->evaluator.recomputed_operators();
    result.swapped = found->evaluator.gap_count();
    result.wall_seconds = budget_.elapsed();
    result.cpu_seconds = process_seconds() - cpu_start_;
    return result;
  }
  LowerBound bound(bool swap) const {
    const Graph& graph = *best_.source->graph;
    if (options_.fission) return lower_bound_with_fission(graph, profile_, swap);
    return lower_bound(graph, make_cost_table(graph, profile_), {.swap = swap});
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
  std::shared_ptr<PaperSource> source_of_present_;
  std::shared_ptr<SplitProblem> present_;  // of the state at hand
  int sources_ = 0;                        // that were made by rewriting
  const Objective objective_;
  Footprint baseline_;
  IncrementalScheduler scheduler_{rescheduling_options()};
  std::shared_ptr<const FissionTree> tree_;  // of the state being expanded
  const std::size_t most_queued_;
  std::set<PaperState, BetterFirst> queue_{BetterFirst{&objective_}};
  std::unordered_set<uint64_t> seen_;
  PaperState best_;
  int64_t made_ = 0;
  int64_t repeated_ = 0;
  PhaseSeconds phases_;
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
