// The optimizer with fission: what it finds, that it keeps its word, and that it is the same again.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Case {
  explicit Case(Graph source, std::string_view device = "cpu")
      : graph(std::move(source)),
        profile(device_profile(device)),
        costs(make_cost_table(graph, profile)),
        baseline(footprint(graph, *lower(graph, program_order(graph)), costs)) {}

  OptimizeResult optimized(Limit limit, int64_t states, bool exact = false,
                           bool rewrite = true) const {
    OptimizeOptions options;
    options.limit = limit;
    options.state_budget = states;
    options.time_budget = 1e9;  // the result is the same on a slow machine
    options.exact = exact;
    options.rewrite = rewrite;
    return optimize(graph, profile, options);
  }
  Limit memory(Bytes transient) const {
    return {.kind = Limit::Kind::memory, .bytes = costs.persistent + transient};
  }
  // The plan is a valid execution of its graph, which has the same inputs and outputs, and costs
  // what the result says.
  void expect_sound(const OptimizeResult& result) const {
    const Graph& split = result.split ? *result.split : graph;
    verify(split);
    const std::optional<Program> program = lower(split, result.decisions);
    ASSERT_TRUE(program.has_value());
    verify(split, *program);
    const Footprint found = footprint(split, *program, make_cost_table(split, profile));
    EXPECT_EQ(result.found.transient_peak, found.transient_peak);
    EXPECT_EQ(result.found.seconds, found.seconds);
    EXPECT_EQ(result.baseline.transient_peak, baseline.transient_peak);
    EXPECT_GE(costs.persistent + found.transient_peak, result.bound.bytes);
    ASSERT_EQ(split.outputs().size(), graph.outputs().size());
    for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
      EXPECT_EQ(split.outputs()[o].path, graph.outputs()[o].path);
      EXPECT_EQ(split.value(split.outputs()[o].value).type,
                graph.value(graph.outputs()[o].value).type);
    }
    EXPECT_EQ(result.split && !split.loops().empty(), !result.regions.empty());
  }

  Graph graph;
  const DeviceProfile& profile;
  CostTable costs;
  Footprint baseline;
};

Case small_bert(int layers = 6) {
  return Case(parse_graph(test::transformer_graph_text({.layers = layers}), "t"));
}

// 118.4 MB, of which 20.8 MB are the gradients. Without fission 38 MB take 12 % more time.
TEST(FissionSearch, RunsASmallBertInParts) {
  const Case bert = small_bert();
  const OptimizeResult result = bert.optimized(bert.memory(38'000'000), 100'000);
  bert.expect_sound(result);
  EXPECT_TRUE(result.met);
  EXPECT_FALSE(result.regions.empty());
  EXPECT_LE(result.found.seconds, 1.06 * bert.baseline.seconds);
}

TEST(FissionSearch, LeavesAloneWhatFits) {
  const Case bert = small_bert(2);
  const Limit limit = bert.memory(bert.baseline.transient_peak);
  const OptimizeResult result = bert.optimized(limit, 10'000, false, false);
  EXPECT_FALSE(result.split);
  EXPECT_EQ(result.found.seconds, bert.baseline.seconds);
  const OptimizeResult rewritten = bert.optimized(limit, 10'000);
  bert.expect_sound(rewritten);
  EXPECT_LT(rewritten.found.seconds, bert.baseline.seconds);
}

TEST(FissionSearch, KeepsALimitOnTime) {
  const Case bert = small_bert(3);
  const Limit limit{.kind = Limit::Kind::latency, .seconds = 1.1 * bert.baseline.seconds};
  const OptimizeResult with = bert.optimized(limit, 40'000);
  bert.expect_sound(with);
  EXPECT_TRUE(with.met);
  EXPECT_LE(with.found.seconds, limit.seconds * (1 + 1e-9));
  OptimizeOptions options;
  options.limit = limit;
  options.state_budget = 40'000;
  options.time_budget = 1e9;
  const OptimizeResult without = optimize_schedule(bert.graph, bert.costs, options);
  EXPECT_LT(with.found.transient_peak, without.found.transient_peak);
}

// A trial that makes the limit hold in no more time ends the search: what was still to be searched
// then is looked at no more.
TEST(FissionSearch, EndsInTheMiddleOfItsTrials) {
  const Case mlp(parse_graph(R"(magis 1
device cpu
param %w1 "w1" : f32[256,16]
param %b1 "b1" : f32[256]
param %w2 "w2" : f32[4,256]
param %b2 "b2" : f32[4]
batch %x "x" : f32[24,16]
%w1t = aten.permute(%w1, [1,0]) : f32[16,256]{1,16}
%h = aten.addmm(%b1, %x, %w1t) : f32[24,256]
%relu = aten.relu(%h) : f32[24,256]
%w2t = aten.permute(%w2, [1,0]) : f32[256,4]{1,256}
%y = aten.addmm(%b2, %relu, %w2t) : f32[24,4]
%loss = aten.mean(%y) : f32[]
%one = aten.full([], 1, dtype=torch.float32) : f32[]
%ones = aten.expand(%one, [24,4]) : f32[24,4]{0,0}
%dy = aten.div.Scalar(%ones, 96) : f32[24,4] backward
%dr = aten.mm(%dy, %w2) : f32[24,256] backward
%dyt = aten.permute(%dy, [1,0]) : f32[4,24]{1,4}
%dw2 = aten.mm(%dyt, %relu) : f32[4,256] backward
%dh = aten.threshold_backward(%dr, %relu, 0) : f32[24,256] backward
%dht = aten.permute(%dh, [1,0]) : f32[256,24]{1,256}
%dw1 = aten.mm(%dht, %x) : f32[256,16] backward
%db1 = aten.sum.dim_IntList(%dh, [0], true) : f32[1,256] backward
output loss "" %loss
output grad "w1" %dw1
output grad "b1" %db1
output grad "w2" %dw2
)",
                             "t"));
  int in_parts = 0;
  for (int percent = 45; percent <= 100; percent += 5) {
    const Bytes limit = mlp.baseline.transient_peak * percent / 100;
    for (const int64_t states : {20, 200, 5'000}) {
      const OptimizeResult result = mlp.optimized(mlp.memory(limit), states);
      mlp.expect_sound(result);
      in_parts += result.regions.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(in_parts, 0);
}

TEST(FissionSearch, FindsTheSameAgain) {
  const Case bert = small_bert(2);
  const Limit limit = bert.memory(bert.baseline.transient_peak / 3);
  const OptimizeResult first = bert.optimized(limit, 20'000);
  const OptimizeResult second = bert.optimized(limit, 20'000);
  ASSERT_TRUE(first.split);
  EXPECT_EQ(to_text(*first.split), to_text(*second.split));
  EXPECT_EQ(first.decisions, second.decisions);
  EXPECT_EQ(first.states_evaluated, second.states_evaluated);
}

TEST(FissionSearch, FindsTheSameOnAnyNumberOfThreads) {
  const Case bert = small_bert(2);
  for (const bool fission : {true, false}) {
    OptimizeOptions options;
    options.limit = bert.memory(bert.baseline.transient_peak / 3);
    options.state_budget = 60'000;
    options.time_budget = 1e9;
    options.fission = fission;
    const OptimizeResult alone = optimize(bert.graph, bert.profile, options);
    for (const int threads : {2, 3, 8}) {
      options.threads = threads;
      const OptimizeResult result = optimize(bert.graph, bert.profile, options);
      bert.expect_sound(result);
      EXPECT_EQ(result.decisions, alone.decisions) << threads;
      EXPECT_EQ(result.split != nullptr, alone.split != nullptr) << threads;
      EXPECT_EQ(result.states_evaluated, alone.states_evaluated) << threads;
      EXPECT_EQ(result.states_scored, alone.states_scored) << threads;
    }
  }
}

// Called on the caller's thread alone, with figures that only get better.
TEST(FissionSearch, ReportsFromItsOwnThread) {
  const Case bert = small_bert(2);
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::latency, .seconds = 1.1 * bert.baseline.seconds};
  options.state_budget = 60'000;
  options.time_budget = 1e9;
  options.threads = 4;
  const std::thread::id own = std::this_thread::get_id();
  int calls = 0;
  Bytes least = bert.costs.persistent + bert.baseline.transient_peak;
  options.progress = [&](const Progress& progress) {
    EXPECT_EQ(std::this_thread::get_id(), own);
    EXPECT_LE(progress.best_peak, least);
    least = progress.best_peak;
    ++calls;
    return true;
  };
  const OptimizeResult result = optimize(bert.graph, bert.profile, options);
  EXPECT_GT(calls, 10);
  EXPECT_LE(bert.costs.persistent + result.found.transient_peak, least);
  // How often this thread reports depends on what the others leave for it to do: ten times, always.
  calls = 0;
  options.progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.bound, result.bound.bytes);
    return ++calls < 10;
  };
  const OptimizeResult stopped = optimize(bert.graph, bert.profile, options);
  EXPECT_EQ(stopped.stop_reason, StopReason::interrupted);
  bert.expect_sound(stopped);
}

TEST(FissionSearch, AddsNoSumsWhereThatIsAsked) {
  const Case bert = small_bert(2);
  const OptimizeResult result =
      bert.optimized(bert.memory(bert.baseline.transient_peak / 4), 20'000, true);
  bert.expect_sound(result);
  if (!result.split) return;
  for (const Operator& op : result.split->operators()) {
    EXPECT_NE(op.info->name, "magis.add_part");
    EXPECT_NE(op.info->name, "magis.add_mm_part");
  }
}

TEST(FissionSearch, IsNeverWorseThanProgramOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Case random(test::make_random_graph(seed, 30));
    const OptimizeResult result = random.optimized(random.memory(0), 2'000);
    random.expect_sound(result);
    EXPECT_LE(result.found.transient_peak, random.baseline.transient_peak) << "seed " << seed;
  }
}

// A child in smaller units: rows of the samples that the outer part holds.
TEST(FissionSearch, SplitsAHeadInsideAPartOfTheBatch) {
  const Case bert = small_bert(2);
  const FissionGround ground(bert.graph, bert.profile);
  const std::vector<FissionCandidate> candidates = ground.candidates();
  int nested = 0;
  for (const FissionCandidate& outer : candidates) {
    for (const FissionCandidate& inner : candidates) {
      if (outer.region.length != 8 || inner.region.length != 1024 ||
          !std::ranges::includes(outer.region.operators, inner.region.operators)) {
        continue;
      }
      FissionRegion around = outer.region;
      around.part = 3;
      add_child(around, inner.region, 100);
      EXPECT_EQ(around.children[0].length, 384);
      ASSERT_EQ(why_invalid(ground.axes(), around), std::nullopt);
      const auto made = ground.split(std::vector{around});
      ASSERT_TRUE(std::holds_alternative<Graph>(made)) << std::get<std::string>(made);
      const Graph& split = std::get<Graph>(made);
      verify(split);
      ASSERT_EQ(split.loops().size(), 2u);
      EXPECT_EQ(split.loop(LoopId(1)).length, (PartLength{128, {LoopId(0)}, 384}));
      ++nested;
    }
  }
  EXPECT_GT(nested, 0);
}

}  // namespace
}  // namespace magis
