// Swapping in the search: copies stay hidden, host memory is kept, limits are met for less time.
#include "search/swap_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "magis/graph/text.h"
#include "magis/schedule/host_pool.h"
#include "magis/schedule/program.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "search/greedy.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

// Rounding of times to picoseconds.
constexpr Seconds kNothing = 1e-9;

OptimizeOptions endless() {
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::memory, .bytes = 0};
  options.time_budget = 1e9;
  return options;
}

class Subject {
 public:
  explicit Subject(Graph source, std::string_view device = "reference")
      : graph(std::move(source)),
        costs(make_cost_table(graph, device_profile(device))),
        problem(graph, costs),
        evaluator(problem),
        options(endless()),
        budget(options, problem.op_count(), [](const Budget&) { return true; }),
        planner(evaluator, budget) {
    evaluator.load(program_order(graph));
  }

  // Lowered and simulated from scratch.
  Footprint figures() const {
    const std::optional<Program> program = lower(graph, evaluator.decisions());
    EXPECT_TRUE(program.has_value());
    verify(graph, *program);
    const Footprint found = footprint(graph, *program, costs);
    EXPECT_EQ(found.transient_peak, evaluator.peak());
    EXPECT_LE(found.host_peak, evaluator.host_bytes());
    return found;
  }

  Graph graph;
  CostTable costs;
  Problem problem;
  Evaluator evaluator;
  OptimizeOptions options;
  Budget budget;
  SwapPlanner planner;
};

Graph small_bert(int layers = 4) {
  return parse_graph(test::transformer_graph_text({.layers = layers}), "t");
}

// The whole batch in parts, each of which swaps.
Graph bert_in_parts() {
  const Graph graph = small_bert();
  const FissionGround ground(graph, device_profile("reference"));
  auto made = ground.split(std::vector{ground.batch_region(4)});
  return std::get<Graph>(std::move(made));
}

TEST(SwapPlanner, HidesAllCopies) {
  Subject bert(small_bert());
  const Bytes before = bert.evaluator.peak();
  const Picoseconds time = bert.evaluator.time();
  EXPECT_FALSE(bert.planner.plan(0));
  const Footprint found = bert.figures();
  EXPECT_LT(found.transient_peak, 9 * before / 10);
  EXPECT_GT(found.host_peak, 0);
  EXPECT_EQ(bert.evaluator.time(), time);
  EXPECT_NEAR(found.exposed, 0, kNothing);
}

TEST(SwapPlanner, HidesAllCopiesInTheBodiesOfLoops) {
  Subject bert(bert_in_parts());
  const Bytes before = bert.evaluator.peak();
  bert.planner.plan(0);
  const Footprint found = bert.figures();
  EXPECT_LT(found.transient_peak, before);
  const auto in_a_loop = [&](const Gap& gap) {
    return bert.graph.loop_of(bert.graph.edge_op(gap.use)).valid();
  };
  EXPECT_TRUE(std::ranges::any_of(bert.evaluator.decisions().gaps, in_a_loop));
  // What is under way when the loop begins may hold up the first part's first copy.
  EXPECT_LE(found.exposed, 0.001 * found.seconds);
}

TEST(SwapPlanner, HidesAllCopiesOfRandomGraphs) {
  int swapped = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Subject subject(test::make_random_graph(seed, 60));
    subject.planner.plan(0);
    EXPECT_NEAR(subject.figures().exposed, 0, kNothing) << "seed " << seed;
    swapped += subject.evaluator.gap_count();
  }
  EXPECT_GT(swapped, 20);
}

// Chains make time, so what was hidden stays so, but for those that read what is on its way.
TEST(SwapPlanner, SettlesWithWhatRunsAgain) {
  Subject bert(small_bert());
  bert.planner.plan(bert.evaluator.peak() * 6 / 10);
  Random random(0);
  Greedy greedy(bert.evaluator, bert.budget, random);
  const Cost cost{bert.evaluator.peak(), bert.evaluator.time()};
  Incumbent incumbent(Objective(bert.options.limit, 0), bert.evaluator.decisions(), cost);
  const Bytes goal = bert.evaluator.peak() * 8 / 10;
  EXPECT_TRUE(greedy.descend({.goal = goal}, incumbent));
  bert.planner.settle(goal);
  const Footprint found = bert.figures();
  EXPECT_LE(found.transient_peak, goal);
  EXPECT_GT(bert.evaluator.recomputed_operators(), 0);
  EXPECT_NEAR(found.exposed, 0, kNothing);
}

TEST(SwapPlanner, TakesBackWhatIsNotNeeded) {
  Subject bert(small_bert());
  const Bytes before = bert.evaluator.peak();
  bert.planner.plan(0);
  const int all = bert.evaluator.gap_count();
  const Bytes allowed = (before + bert.evaluator.peak()) / 2;
  bert.planner.tighten(allowed);
  EXPECT_LT(bert.evaluator.gap_count(), all);
  EXPECT_GT(bert.evaluator.gap_count(), 0);
  EXPECT_LE(bert.figures().transient_peak, allowed);
}

// ---- in the optimizer

OptimizeResult optimized(const Graph& graph, const DeviceProfile& profile, Bytes transient,
                         std::optional<Bytes> host_memory) {
  const CostTable costs = make_cost_table(graph, profile);
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::memory, .bytes = costs.persistent + transient};
  options.state_budget = 30'000;
  options.time_budget = 1e9;
  options.host_memory = host_memory;
  return optimize_schedule(graph, costs, options);
}

TEST(SwapPlanner, SavesTime) {
  const Graph bert = small_bert();
  const DeviceProfile& profile = device_profile("reference");
  const Bytes limit = optimized(bert, profile, 0, 0).baseline.transient_peak * 45 / 100;
  const OptimizeResult without = optimized(bert, profile, limit, 0);
  const OptimizeResult with = optimized(bert, profile, limit, std::nullopt);
  EXPECT_TRUE(with.met);
  EXPECT_EQ(without.swapped, 0);
  EXPECT_EQ(without.found.host_peak, 0);
  EXPECT_GT(with.swapped, 0);
  EXPECT_LT(with.found.seconds, without.found.seconds);
  EXPECT_NEAR(with.found.exposed, 0, kNothing);
}

TEST(SwapPlanner, KeepsToTheHostsMemory) {
  const Graph bert = small_bert();
  const DeviceProfile& profile = device_profile("reference");
  const Bytes limit = optimized(bert, profile, 0, 0).baseline.transient_peak * 45 / 100;
  const Bytes all = optimized(bert, profile, limit, std::nullopt).found.host_peak;
  const OptimizeResult half = optimized(bert, profile, limit, all / 2);
  EXPECT_GT(half.swapped, 0);
  EXPECT_LE(half.found.host_peak, all / 2);
}

// A mask cannot be drawn twice; where the step waits for copies it still may leave, if asked to.
TEST(SwapPlanner, SwapsForTimeWhereCopiesDoNotOverlap) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[1000,1000]
%mask = magis.bernoulli([1000,1000], [1000,1], 0.5) : f32[1000,1000]
%a = aten.mul.Tensor(%x, %mask) : f32[1000,1000]
%b = aten.mm(%a, %x) : f32[1000,1000]
%c = aten.mm(%b, %x) : f32[1000,1000]
%d = aten.mm(%b, %c) : f32[1000,1000]
%e = aten.mul.Tensor(%d, %mask) : f32[1000,1000]
output loss "" %e
)",
                                  "test");
  const DeviceProfile& profile = device_profile("cpu");
  constexpr Bytes kMatrix = 4'000'000;
  const OptimizeResult kept = optimized(graph, profile, 3 * kMatrix, std::nullopt);
  EXPECT_FALSE(kept.met);
  const OptimizeResult swapped = optimized(graph, profile, 3 * kMatrix, 2 * kMatrix);
  EXPECT_TRUE(swapped.met);
  EXPECT_EQ(swapped.swapped, 1);
  EXPECT_EQ(swapped.found.host_peak, kMatrix);
  // The step waits for a store and a load.
  const Seconds copy = profile.link_latency + kMatrix / profile.link_bytes_per_second;
  EXPECT_NEAR(swapped.found.seconds, swapped.baseline.seconds + 2 * copy, kNothing);
}

}  // namespace
}  // namespace magis
