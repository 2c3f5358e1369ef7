// What the search does most: edits tried in place and taken back, and scored without being tried.
// Over graphs of 4 to 256 stacked transformer layers. The edits of BM_TryEdit are any at all: that
// of a gradient between layers makes half of the step run again, so their cost grows with the
// graph. BM_Search tells what the edits cost that a search does try.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "magis/graph/text.h"
#include "search/budget.h"
#include "search/evaluator.h"
#include "search/random.h"
#include "search/schedule_search.h"
#include "search/scoring.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Case {
  explicit Case(int layers)
      : graph(parse_graph(test::transformer_graph_text({.layers = layers}), "transformer")),
        costs(make_cost_table(graph, device_profile("reference"))),
        problem(graph, costs),
        evaluator(problem),
        scorer(problem) {
    evaluator.load(program_order(graph));
  }

  // Every fourth tensor that may be dropped is made again for its last use.
  void drop_some() {
    const std::vector<EdgeId>& edges = scorer.edges();
    for (std::size_t i = 0; i < edges.size(); i += 4) {
      const std::size_t mark = evaluator.mark();
      evaluator.set_mode(edges[i], Mode::recompute);
      if (!evaluator.feasible()) evaluator.undo(mark);
    }
    evaluator.forget();
  }

  Graph graph;
  CostTable costs;
  Problem problem;
  Evaluator evaluator;
  Scorer scorer;
};

void BM_TryEdit(benchmark::State& state) {
  Case bench(static_cast<int>(state.range(0)));
  if (state.range(1) != 0) bench.drop_some();
  const Bytes target = bench.evaluator.peak() * 9 / 10;
  const std::vector<EdgeId>& edges = bench.scorer.edges();
  Random random(1);
  for (auto _ : state) {
    const EdgeId edge = edges[random.below(edges.size())];
    const Mode mode = bench.evaluator.mode(edge) == Mode::keep ? Mode::recompute : Mode::keep;
    const std::size_t mark = bench.evaluator.mark();
    bench.evaluator.set_mode(edge, mode);
    benchmark::DoNotOptimize(bench.evaluator.usage(target));
    bench.evaluator.undo(mark);
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["operators"] = bench.problem.op_count();
}
BENCHMARK(BM_TryEdit)
    ->ArgNames({"layers", "edited"})
    ->ArgsProduct({{4, 16, 64, 256}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

void BM_ScoreAll(benchmark::State& state) {
  Case bench(static_cast<int>(state.range(0)));
  bench.drop_some();
  OptimizeOptions options;
  options.time_budget = 1e9;
  Budget budget(options, bench.problem.op_count(), nullptr);
  const Bytes target = bench.evaluator.peak() * 9 / 10;
  int64_t scored = 0;
  for (auto _ : state) {
    bench.scorer.focus(bench.evaluator, target);
    scored += static_cast<int64_t>(bench.scorer.score_all(bench.evaluator, budget).size());
  }
  state.SetItemsProcessed(scored);
  state.counters["operators"] = bench.problem.op_count();
}
BENCHMARK(BM_ScoreAll)
    ->ArgName("layers")
    ->Arg(4)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond);

// A search for half of the memory; an item is a state that it evaluates exactly.
void BM_Search(benchmark::State& state) {
  const Case bench(static_cast<int>(state.range(0)));
  const Bytes peak = bench.evaluator.peak();
  OptimizeOptions options;
  options.host_memory = 0;
  options.limit = {.kind = Limit::Kind::memory, .bytes = bench.costs.persistent + peak / 2};
  options.time_budget = 10;
  int64_t evaluated = 0;
  for (auto _ : state) {
    evaluated += optimize_schedule(bench.graph, bench.costs, options).states_evaluated;
  }
  state.SetItemsProcessed(evaluated);
  state.counters["operators"] = bench.problem.op_count();
}
BENCHMARK(BM_Search)->ArgName("layers")->Arg(21)->Arg(84)->Arg(328)->Arg(1312)->Iterations(1)->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace magis
