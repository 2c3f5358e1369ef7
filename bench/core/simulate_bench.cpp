// What a schedule costs to lower, count and print, on a BERT-base training step.
#include <benchmark/benchmark.h>

#include "magis/codegen/python.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/simulate/simulate.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Step {
  Graph graph = parse_graph(test::transformer_graph_text({.layers = 12,
                                                          .batch = 32,
                                                          .sequence = 512,
                                                          .hidden = 768,
                                                          .heads = 12,
                                                          .feed_forward = 3072,
                                                          .vocabulary = 30522}),
                            "bert");
  CostTable costs = make_cost_table(graph, device_profile("reference"));
  Decisions kept = program_order(graph);
  Decisions recomputing = every_25th_use_recomputed();
  Program program = lower(graph, kept).value();
  Program longer = lower(graph, recomputing).value();

 private:
  Decisions every_25th_use_recomputed() const {
    Decisions decisions = kept;
    for (std::size_t e = 0; e < graph.edge_count(); e += 25) {
      const Tensor& tensor = graph.tensor(graph.edge_tensor(EdgeId(e)));
      if (!tensor.is_input && recomputable(graph, tensor.producer))
        decisions.modes[EdgeId(e)] = Mode::recompute;
    }
    return decisions;
  }
};

const Step& step() {
  static const Step made;
  return made;
}

void count_statements(benchmark::State& state, const Program& program) {
  state.counters["statements"] = static_cast<double>(program.statements.size());
  state.counters["operators"] = static_cast<double>(step().graph.op_count());
}

void BM_Footprint(benchmark::State& state) {
  const Program& program = state.range(0) == 0 ? step().program : step().longer;
  for (auto _ : state) {
    benchmark::DoNotOptimize(footprint(step().graph, program, step().costs));
  }
  count_statements(state, program);
}
BENCHMARK(BM_Footprint)->ArgName("recomputing")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_Simulate(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulate(step().graph, step().program, step().costs));
  }
  count_statements(state, step().program);
}
BENCHMARK(BM_Simulate)->Unit(benchmark::kMicrosecond);

void BM_Lower(benchmark::State& state) {
  const Decisions& decisions = state.range(0) == 0 ? step().kept : step().recomputing;
  for (auto _ : state) benchmark::DoNotOptimize(lower(step().graph, decisions));
}
BENCHMARK(BM_Lower)->ArgName("recomputing")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void BM_LowerBound(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(lower_bound(step().graph, step().costs));
}
BENCHMARK(BM_LowerBound)->Unit(benchmark::kMicrosecond);

void BM_VerifyProgram(benchmark::State& state) {
  for (auto _ : state) verify(step().graph, step().longer);
}
BENCHMARK(BM_VerifyProgram)->Unit(benchmark::kMicrosecond);

void BM_ParsePlan(benchmark::State& state) {
  const std::string text = to_text(step().graph, step().longer);
  for (auto _ : state) benchmark::DoNotOptimize(parse_plan(text, "bert"));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(BM_ParsePlan)->Unit(benchmark::kMicrosecond);

void BM_EmitPython(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(emit_python(step().graph, step().longer, "BERT."));
  }
}
BENCHMARK(BM_EmitPython)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace magis
