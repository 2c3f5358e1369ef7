// The optimizer as a whole: limits met, promises kept, never worse, the same again for the same
// seed.
#include "magis/search/optimize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Case {
  explicit Case(Graph source, std::string_view profile = "cpu")
      : graph(std::move(source)), costs(make_cost_table(graph, device_profile(profile))) {
    baseline = footprint(graph, *lower(graph, program_order(graph)), costs);
  }
  Case(const test::TransformerSize& size)
      : Case(parse_graph(test::transformer_graph_text(size), "t")) {}

  OptimizeOptions memory_options(Bytes transient) const {
    OptimizeOptions options;
    options.limit = {.kind = Limit::Kind::memory, .bytes = costs.persistent + transient};
    return options;
  }
  OptimizeOptions latency_options(double ratio) const {
    OptimizeOptions options;
    options.limit = {.kind = Limit::Kind::latency, .seconds = ratio * baseline.seconds};
    return options;
  }
  // The plan says what it promises, and is a valid execution of the graph.
  void expect_sound(const OptimizeResult& result) const {
    const std::optional<Program> program = lower(graph, result.decisions);
    ASSERT_TRUE(program.has_value());
    verify(graph, *program);
    const Footprint found = footprint(graph, *program, costs);
    EXPECT_EQ(result.found.transient_peak, found.transient_peak);
    EXPECT_EQ(result.found.seconds, found.seconds);
    EXPECT_EQ(result.baseline.transient_peak, baseline.transient_peak);
    EXPECT_GE(costs.persistent + found.transient_peak, result.bound.bytes);
    std::vector<int> runs(graph.op_count(), 0);
    for (const Statement& statement : program->statements) {
      if (statement.kind == Statement::Kind::run)
        ++runs[static_cast<std::size_t>(statement.op.index)];
    }
    EXPECT_EQ(result.recomputed, std::ranges::count_if(runs, [](int n) { return n > 1; }));
  }

  Graph graph;
  CostTable costs;
  Footprint baseline;
};

// BertForMaskedLM, hidden 256, 6 layers, batch 8 x 128: 118.4 MB, of which 20.8 MB are the
// gradients. State budgets instead of time: the result is the same on a slow machine.
TEST(Optimize, MakesASmallBertFit) {
  const Case bert({.layers = 6});
  EXPECT_NEAR(static_cast<double>(bert.baseline.transient_peak), 118.4e6, 0.1e6);
  OptimizeOptions options = bert.memory_options(45'000'000);
  options.state_budget = 200'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  bert.expect_sound(result);
  EXPECT_TRUE(result.met);
  EXPECT_LE(result.found.transient_peak, 45'000'000);
  EXPECT_LE(result.found.seconds, 1.13 * bert.baseline.seconds);
  EXPECT_LE(result.states_evaluated, options.state_budget);
  EXPECT_GT(result.states_scored, 0);
  EXPECT_GT(result.recomputed, 0);
}

TEST(Optimize, FindsTheLeastMemoryWithinATimeLimit) {
  const Case bert({.layers = 6});
  OptimizeOptions options = bert.latency_options(1.15);
  options.state_budget = 200'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  bert.expect_sound(result);
  EXPECT_TRUE(result.met);
  EXPECT_LE(result.found.seconds, 1.15 * bert.baseline.seconds);
  EXPECT_LE(result.found.transient_peak, 39'500'000);
}

// HF's gradient checkpointing keeps each layer's input alone: 1.31 times the time for 40.2 MB.
TEST(Optimize, BeatsCheckpointingEveryLayer) {
  const Case bert({.layers = 6});
  OptimizeOptions options = bert.memory_options(40'200'000);
  options.state_budget = 100'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  EXPECT_TRUE(result.met);
  EXPECT_LE(result.found.seconds, 1.16 * bert.baseline.seconds);
}

TEST(Optimize, SameSeedAndStateBudgetGiveTheSamePlan) {
  const Case bert({.layers = 3});
  for (const bool memory : {true, false}) {
    OptimizeOptions options =
        memory ? bert.memory_options(bert.baseline.transient_peak / 2) : bert.latency_options(1.08);
    options.state_budget = 20'000;
    options.time_budget = 1e9;
    options.seed = 7;
    const OptimizeResult first = optimize_schedule(bert.graph, bert.costs, options);
    const OptimizeResult second = optimize_schedule(bert.graph, bert.costs, options);
    EXPECT_EQ(first.decisions, second.decisions);
    EXPECT_EQ(first.states_evaluated, second.states_evaluated);
    EXPECT_EQ(first.states_scored, second.states_scored);
    EXPECT_EQ(first.stop_reason, StopReason::state_budget);
    EXPECT_EQ(first.states_evaluated, options.state_budget);
  }
}

TEST(Optimize, MoreStatesAreNeverWorse) {
  const Case bert({.layers = 3});
  OptimizeOptions options = bert.latency_options(1.1);
  options.time_budget = 1e9;
  Bytes last = bert.baseline.transient_peak;
  for (const int64_t states : {1, 100, 5'000, 20'000, 60'000}) {
    options.state_budget = states;
    const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
    bert.expect_sound(result);
    EXPECT_TRUE(result.met);
    EXPECT_LE(result.found.transient_peak, last);
    last = result.found.transient_peak;
  }
  EXPECT_LT(last, bert.baseline.transient_peak / 2);
}

TEST(Optimize, IsSoundOnRandomGraphs) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Case random(test::make_random_graph(seed, 15 + static_cast<int>(seed)), "a100");
    for (const bool memory : {true, false}) {
      OptimizeOptions options = memory ? random.memory_options(random.baseline.transient_peak / 2)
                                       : random.latency_options(1.2);
      options.state_budget = 3'000;
      options.time_budget = 1e9;
      options.seed = seed;
      const OptimizeResult result = optimize_schedule(random.graph, random.costs, options);
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", memory limit " << memory);
      random.expect_sound(result);
      EXPECT_LE(result.found.transient_peak, random.baseline.transient_peak);
      if (memory && result.met) {
        EXPECT_LE(random.costs.persistent + result.found.transient_peak, options.limit.bytes);
      }
      if (!memory) {
        EXPECT_LE(result.found.seconds, options.limit.seconds * (1 + 1e-9));
      }
    }
  }
}

TEST(Optimize, LeavesAStepAloneThatFits) {
  const Case bert({.layers = 2});
  const OptimizeResult result =
      optimize_schedule(bert.graph, bert.costs, bert.memory_options(bert.baseline.transient_peak));
  EXPECT_TRUE(result.met);
  EXPECT_EQ(result.stop_reason, StopReason::converged);
  EXPECT_EQ(result.decisions, program_order(bert.graph));
  EXPECT_EQ(result.recomputed, 0);
}

// Reordering must not use up a budget that recomputation needs.
TEST(Optimize, GetsSomewhereInAFewStatesOnALargeGraph) {
  const Case bert({.layers = 60});
  EXPECT_GT(bert.graph.op_count(), 2'000U);
  OptimizeOptions options = bert.latency_options(1.1);
  options.state_budget = 10'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  bert.expect_sound(result);
  EXPECT_GT(result.states_scored, 0);
  EXPECT_LE(result.found.transient_peak, bert.baseline.transient_peak * 8 / 10);
}

TEST(Optimize, ReturnsTheLeastMemoryIfTheLimitIsOutOfReach) {
  const Case bert({.layers = 2});
  OptimizeOptions options = bert.memory_options(1'000'000);
  options.state_budget = 30'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  bert.expect_sound(result);
  EXPECT_FALSE(result.met);
  EXPECT_LT(result.found.transient_peak, bert.baseline.transient_peak / 2);
}

TEST(Optimize, StopsWhenItIsToldTo) {
  const Case bert({.layers = 6});
  OptimizeOptions options = bert.latency_options(1.1);
  int calls = 0;
  Bytes last = bert.costs.persistent + bert.baseline.transient_peak;
  Seconds elapsed = 0;
  options.time_budget = 1e9;
  options.progress = [&](const Progress& progress) {
    EXPECT_LE(progress.best_peak, last);
    EXPECT_TRUE(progress.met);
    EXPECT_GE(progress.elapsed, elapsed);
    last = progress.best_peak;
    elapsed = progress.elapsed;
    return ++calls < 5;
  };
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(result.stop_reason, StopReason::interrupted);
  // What was under way when it was told to stop counts too.
  EXPECT_LE(bert.costs.persistent + result.found.transient_peak, last);
}

TEST(Optimize, KeepsToItsTimeBudget) {
  const Case bert({.layers = 6});
  OptimizeOptions options = bert.latency_options(1.1);
  options.time_budget = 0.05;
  const OptimizeResult result = optimize_schedule(bert.graph, bert.costs, options);
  EXPECT_EQ(result.stop_reason, StopReason::time_budget);
  EXPECT_GE(result.wall_seconds, 0.05);
}

TEST(Optimize, HandlesAStepWithNothingToDecide) {
  const Graph graph = parse_graph(
      "magis 1\ndevice cpu\n\nbatch %x \"x\" : f32[4]\n\n%y = aten.relu(%x) : f32[4]\n\n"
      "output loss \"\" %y\n",
      "tiny");
  const CostTable costs = make_cost_table(graph, device_profile("cpu"));
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::memory, .bytes = 1};
  const OptimizeResult result = optimize_schedule(graph, costs, options);
  EXPECT_FALSE(result.met);
  EXPECT_EQ(result.stop_reason, StopReason::converged);
  EXPECT_EQ(result.found.transient_peak, 16);
}

}  // namespace
}  // namespace magis
