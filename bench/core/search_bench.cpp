// The search's inner loops on a BERT-base-like training graph of some 700 kernels, and the whole
// search.
#include <benchmark/benchmark.h>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/search/optimize.h"
#include "search/budget.h"
#include "search/evaluator.h"
#include "search/random.h"
#include "search/reorder.h"
#include "search/scoring.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Subject {
  Graph graph = parse_graph(test::transformer_graph_text({.layers = 18}), "transformer");
  CostTable costs = make_cost_table(graph, device_profile("reference"));
  Problem problem{graph, costs};
  std::vector<EdgeId> droppable;

  Subject() {
    for (std::size_t e = 0; e < graph.edge_count(); ++e) {
      if (problem.droppable[EdgeId(e)]) droppable.push_back(EdgeId(e));
    }
  }
};

const Subject& subject() {
  static const Subject instance;
  return instance;
}

// Program order with a tenth of the uses recomputed: what the search looks at most of the time.
Decisions edited(Random& random) {
  Decisions decisions = program_order(subject().graph);
  for (const EdgeId edge : subject().droppable) {
    if (random.chance(0.1)) decisions.modes[edge] = Mode::recompute;
  }
  return decisions;
}

OptimizeOptions unlimited() {
  OptimizeOptions options;
  options.time_budget = 1e9;
  return options;
}

void per_second(benchmark::State& state) { state.SetItemsProcessed(state.iterations()); }

void LowerAndSimulate(benchmark::State& state) {
  Random random(1);
  const Decisions decisions = edited(random);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        footprint(subject().graph, *lower(subject().graph, decisions), subject().costs));
  }
  per_second(state);
}
BENCHMARK(LowerAndSimulate);

void EvaluateFromScratch(benchmark::State& state) {
  Random random(1);
  Evaluator evaluator(subject().problem);
  const Decisions decisions = state.range(0) != 0 ? edited(random) : program_order(subject().graph);
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.evaluate(decisions));
  per_second(state);
}
BENCHMARK(EvaluateFromScratch)->ArgName("edited")->Arg(0)->Arg(1);

void EditEvaluateUndo(benchmark::State& state) {
  Random random(1);
  Evaluator evaluator(subject().problem);
  evaluator.load(edited(random));
  const Bytes target = evaluator.peak() / 2;
  for (auto _ : state) {
    const EdgeId edge = subject().droppable[random.below(subject().droppable.size())];
    const std::size_t mark = evaluator.mark();
    evaluator.set_mode(edge, evaluator.mode(edge) == Mode::keep ? Mode::recompute : Mode::keep);
    benchmark::DoNotOptimize(evaluator.usage(target));
    evaluator.undo(mark);
  }
  per_second(state);
}
BENCHMARK(EditEvaluateUndo);

void SwapNeighbours(benchmark::State& state) {
  Random random(1);
  Evaluator evaluator(subject().problem);
  evaluator.load(program_order(subject().graph));
  const auto last = static_cast<std::size_t>(evaluator.op_count() - 1);
  int64_t swaps = 0;
  for (auto _ : state) {
    const int position = static_cast<int>(random.below(last));
    if (!evaluator.can_swap(position)) continue;
    evaluator.swap(position);
    evaluator.forget();
    ++swaps;
  }
  state.SetItemsProcessed(swaps);
}
BENCHMARK(SwapNeighbours);

void ScoreAllEdits(benchmark::State& state) {
  Random random(1);
  Evaluator evaluator(subject().problem);
  evaluator.load(edited(random));
  Scorer scorer(subject().problem);
  Budget budget(unlimited(), evaluator.op_count(), nullptr);
  for (auto _ : state) {
    scorer.focus(evaluator, evaluator.peak() / 2);
    benchmark::DoNotOptimize(scorer.score_all(evaluator, budget).data());
  }
  state.SetItemsProcessed(budget.scored());
}
BENCHMARK(ScoreAllEdits);

void Reorder(benchmark::State& state) {
  const Decisions decisions = program_order(subject().graph);
  Evaluator evaluator(subject().problem);
  for (auto _ : state) {
    Budget budget(unlimited(), evaluator.op_count(), nullptr);
    evaluator.load(decisions);
    reorder_for_peak(evaluator, budget);
    reorder_for_area(evaluator, budget);
  }
}
BENCHMARK(Reorder)->Unit(benchmark::kMillisecond);

// Least memory at `percent` of the program's time, 200,000 evaluated states; reports what was
// reached.
void Optimize(benchmark::State& state) {
  const Footprint base = footprint(
      subject().graph, *lower(subject().graph, program_order(subject().graph)), subject().costs);
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::latency,
                   .seconds = base.seconds * static_cast<double>(state.range(0)) / 100};
  options.state_budget = 200'000;
  options.time_budget = 1e9;
  OptimizeResult result;
  int64_t states = 0;
  for (auto _ : state) {
    result = optimize(subject().graph, subject().costs, options);
    states += result.states_evaluated;
  }
  state.SetItemsProcessed(states);
  state.counters["memory"] =
      static_cast<double>(result.found.transient_peak) / static_cast<double>(base.transient_peak);
}
BENCHMARK(Optimize)->ArgName("percent")->Arg(105)->Arg(110)->Arg(120)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace magis
