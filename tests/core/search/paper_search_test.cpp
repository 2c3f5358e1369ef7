// The search that the paper describes: what it finds, that it keeps its word, that it is the same
// again, and what its ablations change.
#include "search/paper_search.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "search/evaluator.h"
#include "search/paper_regions.h"
#include "search/paper_rules.h"
#include "search/split_problem.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

struct Case {
  explicit Case(Graph source, std::string_view device = "reference")
      : graph(std::move(source)),
        profile(device_profile(device)),
        costs(make_cost_table(graph, profile)),
        baseline(footprint(graph, *lower(graph, program_order(graph)), costs)) {}

  OptimizeOptions options(Limit limit, int64_t states) const {
    OptimizeOptions options;
    options.strategy = Strategy::paper;
    options.limit = limit;
    options.state_budget = states;
    options.time_budget = 1e9;  // the result is the same on a slow machine
    return options;
  }
  OptimizeResult optimized(const OptimizeOptions& options) const {
    return optimize(graph, profile, options);
  }
  Limit memory(double share) const {
    const Bytes peak = costs.persistent + baseline.transient_peak;
    return {.kind = Limit::Kind::memory,
            .bytes = static_cast<Bytes>(share * static_cast<double>(peak))};
  }
  Limit latency(double ratio) const {
    return {.kind = Limit::Kind::latency, .seconds = ratio * baseline.seconds};
  }
  // The plan is a valid execution of its graph and costs what the result says.
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
    EXPECT_EQ(result.split != result.rewritten, !result.regions.empty());
    EXPECT_GE(result.states_scored, result.states_evaluated);
  }

  Graph graph;
  const DeviceProfile& profile;
  CostTable costs;
  Footprint baseline;
};

// As large as BERT-base, so that operators take longer than their launch.
Case bert_of(int layers = 2) {
  const test::TransformerSize size{.layers = layers,
                                   .batch = 32,
                                   .sequence = 512,
                                   .hidden = 768,
                                   .heads = 12,
                                   .feed_forward = 3072};
  return Case(parse_graph(test::transformer_graph_text(size), "t"));
}

std::string text_of(const Case& of, const OptimizeResult& result) {
  const Graph& split = result.split ? *result.split : of.graph;
  return to_text(split, *lower(split, result.decisions));
}

TEST(PaperSearch, FindsLessMemoryWithinATimeLimit) {
  const Case bert = bert_of();
  const OptimizeResult result = bert.optimized(bert.options(bert.latency(1.1), 3'000));
  bert.expect_sound(result);
  EXPECT_TRUE(result.met);
  EXPECT_LE(result.found.seconds, 1.1 * bert.baseline.seconds * (1 + 1e-9));
  EXPECT_LE(result.found.transient_peak, bert.baseline.transient_peak * 6 / 10);
  EXPECT_LE(result.states_evaluated, 3'000);
  EXPECT_EQ(result.stop_reason, StopReason::state_budget);
}

TEST(PaperSearch, KeepsALimitOnMemory) {
  const Case bert = bert_of();
  const OptimizeResult result = bert.optimized(bert.options(bert.memory(0.6), 4'000));
  bert.expect_sound(result);
  EXPECT_TRUE(result.met);
  EXPECT_LE(result.found.seconds, 1.1 * bert.baseline.seconds);
}

TEST(PaperSearch, SplitsRegions) {
  const Case bert = bert_of();
  OptimizeOptions options = bert.options(bert.latency(1.1), 3'000);
  options.host_memory = 0;
  const OptimizeResult result = bert.optimized(options);
  bert.expect_sound(result);
  EXPECT_EQ(result.swapped, 0);
  EXPECT_FALSE(result.regions.empty());
  for (const FissionRegion& region : result.regions) {
    EXPECT_EQ(region.length % region.part, 0);  // the paper's parts divide the axis
  }
  options.fission = false;
  const OptimizeResult whole = bert.optimized(options);
  bert.expect_sound(whole);
  EXPECT_TRUE(whole.regions.empty());
  EXPECT_LT(result.found.transient_peak, whole.found.transient_peak);
}

TEST(PaperSearch, LeavesAloneWhatFits) {
  const Case bert = bert_of();
  OptimizeOptions options = bert.options(bert.memory(1), 1'000);
  options.rewrite = false;
  const OptimizeResult result = bert.optimized(options);
  EXPECT_EQ(result.split, nullptr);
  EXPECT_EQ(result.found.seconds, bert.baseline.seconds);
  EXPECT_EQ(result.states_evaluated, 0);
  EXPECT_EQ(result.stop_reason, StopReason::converged);
}

TEST(PaperSearch, IsNeverWorseThanProgramOrder) {
  int better = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const char* device : {"cpu", "reference"}) {
      const Case random(test::make_random_graph(seed, 40), device);
      const OptimizeResult result = random.optimized(random.options(random.latency(1.2), 200));
      random.expect_sound(result);
      EXPECT_LE(result.found.transient_peak, random.baseline.transient_peak);
      better += result.found.transient_peak < random.baseline.transient_peak ? 1 : 0;
    }
  }
  EXPECT_GT(better, 12);
}

TEST(PaperSearch, TheSameSeedAndStatesGiveTheSamePlan) {
  const Case bert = bert_of();
  OptimizeOptions options = bert.options(bert.latency(1.1), 800);
  EXPECT_EQ(text_of(bert, bert.optimized(options)), text_of(bert, bert.optimized(options)));
  options.paper.random_fission = true;
  options.seed = 3;
  EXPECT_EQ(text_of(bert, bert.optimized(options)), text_of(bert, bert.optimized(options)));
}

TEST(PaperSearch, AnInterruptReturnsTheBest) {
  const Case bert = bert_of();
  OptimizeOptions options = bert.options(bert.latency(1.1), 0);
  Bytes shown = 0;
  int calls = 0;
  options.progress = [&](const Progress& progress) {
    EXPECT_TRUE(shown == 0 || progress.best_peak <= shown);
    shown = progress.best_peak;
    return ++calls < 40;
  };
  const OptimizeResult result = bert.optimized(options);
  bert.expect_sound(result);
  EXPECT_EQ(calls, 40);
  EXPECT_EQ(result.stop_reason, StopReason::interrupted);
  EXPECT_LE(bert.costs.persistent + result.found.transient_peak, shown);
  EXPECT_LT(result.found.transient_peak, bert.baseline.transient_peak);
}

TEST(PaperSearch, ExactPlansAddNoSumsUpInParts) {
  const Case bert = bert_of();
  OptimizeOptions options = bert.options(bert.latency(1.1), 600);
  options.exact = true;
  const OptimizeResult result = bert.optimized(options);
  bert.expect_sound(result);
  EXPECT_EQ(text_of(bert, result).find("magis.add_"), std::string::npos);
}

// ---- ablations

TEST(PaperSearch, SchedulingRulesAreMatchedAtHotspotsUnlessNaive) {
  const Case bert = bert_of();
  const Problem problem(bert.graph, bert.costs);
  Evaluator evaluator(problem);
  evaluator.load(program_order(bert.graph));
  const int peak = evaluator.peak_position();
  const auto steps = schedule_steps(evaluator, false);
  EXPECT_FALSE(steps.empty());
  for (const ScheduleStep& step : steps) {
    EXPECT_LT(evaluator.held_from(step.edge), peak);
    EXPECT_GT(evaluator.use_position(step.edge), peak);
  }
  const auto naive = schedule_steps(evaluator, true);
  EXPECT_GT(naive.size(), steps.size());
  for (const ScheduleStep& step : steps) EXPECT_NE(std::ranges::find(naive, step), naive.end());
}

TEST(PaperSearch, EveryScheduleStepHasItsInverse) {
  const Case bert = bert_of();
  const Problem problem(bert.graph, bert.costs);
  Evaluator evaluator(problem);
  evaluator.load(program_order(bert.graph));
  for (const ScheduleStep& step : schedule_steps(evaluator, false)) {
    const std::size_t mark = evaluator.mark();
    const Decisions before = evaluator.decisions();
    evaluator.set_mode(step.edge, step.mode);
    EXPECT_EQ(evaluator.mode(step.edge), step.mode);
    EXPECT_TRUE(may_set_mode(evaluator, step.edge, Mode::keep));
    evaluator.set_mode(step.edge, Mode::keep);
    EXPECT_EQ(evaluator.decisions(), before);
    evaluator.undo(mark);
  }
}

// The most that nests in a node of the tree.
int depth(const FissionTree& tree) {
  int deepest = 0;
  for (int n = 0; n < static_cast<int>(tree.nodes.size()); ++n) {
    int levels = 0;
    for (int up = n; up >= 0; up = tree.nodes[static_cast<std::size_t>(up)].parent) ++levels;
    deepest = std::max(deepest, levels);
  }
  return deepest;
}

TEST(PaperSearch, MoreLevelsMakeALargerTreeAndRandomFissionAnother) {
  const Case bert = bert_of(4);
  const FissionGround ground(bert.graph, bert.profile);
  const Hotspots hotspots = ground.hotspots(bert.graph, program_order(bert.graph), bert.costs);
  const auto tree_with = [&](const PaperOptions& paper, uint64_t seed = 0) {
    OptimizeOptions options;
    options.paper = paper;
    options.seed = seed;
    return PaperRegions(ground, options).tree(hotspots, {});
  };
  const FissionTree shallow = tree_with({.max_level = 1});
  const FissionTree deep = tree_with({.max_level = 8});
  EXPECT_GT(deep.nodes.size(), shallow.nodes.size());
  EXPECT_GE(depth(deep), depth(shallow));
  const Graph& opened = ground.axes().graph();
  const std::string random = to_text(opened, tree_with({.random_fission = true}, 1));
  EXPECT_FALSE(random.empty());
  EXPECT_NE(random, to_text(opened, tree_with({})));
  EXPECT_NE(random, to_text(opened, tree_with({.random_fission = true}, 2)));
}

TEST(PaperSearch, AblationsGiveSoundPlans) {
  const Case bert = bert_of();
  for (const PaperOptions& paper :
       {PaperOptions{.random_fission = true}, PaperOptions{.naive_schedule_rules = true},
        PaperOptions{.max_level = 2}}) {
    OptimizeOptions options = bert.options(bert.latency(1.1), 600);
    options.paper = paper;
    bert.expect_sound(bert.optimized(options));
  }
}

TEST(PaperSearch, OptionsThatDoNotGoTogetherAreRefused) {
  const Case bert = bert_of(1);
  OptimizeOptions options = bert.options(bert.latency(1.1), 10);
  options.paper.max_level = 0;
  EXPECT_THROW(bert.optimized(options), UserError);
  options.paper = {};
  options.batch_parts = 2;
  EXPECT_THROW(bert.optimized(options), UserError);
  options.batch_parts = 0;
  options.strategy = Strategy::standard;
  for (const PaperOptions& paper :
       {PaperOptions{.random_fission = true}, PaperOptions{.naive_schedule_rules = true},
        PaperOptions{.max_level = 2}}) {
    options.paper = paper;
    EXPECT_THROW(bert.optimized(options), UserError);
  }
  EXPECT_THROW(parse_strategy("papers"), UserError);
}

// ---- schedules of other split graphs

// Splitting a graph and going back finds the schedule as it was.
TEST(SplitProblems, CarryScheduleEditsThereAndBack) {
  const Case bert = bert_of();
  const FissionGround ground(bert.graph, bert.profile);
  SplitProblems problems(bert.graph, ground, bert.profile, 1'000'000'000, false);
  const auto whole = problems.find({});
  FissionRegion region = ground.batch_region(2);
  const auto split = problems.find({&region, 1});
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(problems.find({&region, 1}), split);  // made once

  whole->evaluator.load(program_order(bert.graph));
  int edits = 0;
  for (const ScheduleStep& step : schedule_steps(whole->evaluator, true)) {
    if (edits == 12 || !may_set_mode(whole->evaluator, step.edge, step.mode)) continue;
    whole->evaluator.set_mode(step.edge, step.mode);
    ++edits;
  }
  ASSERT_TRUE(whole->evaluator.feasible());
  const Decisions decisions = whole->evaluator.decisions();
  carry_over(*whole, decisions, *split);
  EXPECT_TRUE(split->evaluator.feasible());
  const Decisions carried = split->evaluator.decisions();
  verify(split->graph, *lower(split->graph, carried));
  const auto edited = [](const Decisions& of) {
    return std::ranges::count_if(of.modes, [](Mode mode) { return mode != Mode::keep; });
  };
  EXPECT_GE(edited(carried), edited(decisions) / 2);
  carry_over(*split, carried, *whole);
  for (std::size_t e = 0; e < decisions.modes.size(); ++e) {
    const Mode back = whole->evaluator.mode(EdgeId(e));
    EXPECT_TRUE(back == Mode::keep || back == decisions.modes[EdgeId(e)]);
  }
}

// Regions of two towers that are alike are the same choice, but not the same graph.
TEST(SplitProblems, IsomorphicRegionsAreGraphsOfTheirOwn) {
  std::string text = "magis 1\ndevice cpu\n";
  std::string outputs;
  for (const std::string tower : {"a", "b"}) {
    const std::string type = " : f32[64,256]\n";
    text += "batch %x" + tower + " \"x" + tower + "\" : f32[64,8]\n";
    text += "param %w" + tower + " \"w" + tower + "\" : f32[8,256]\n";
    outputs += "%h" + tower + " = aten.mm(%x" + tower + ", %w" + tower + ")" + type;
    outputs += "%s" + tower + " = aten.sigmoid(%h" + tower + ")" + type;
    outputs += "%t" + tower + " = aten.mul.Tensor(%s" + tower + ", %h" + tower + ")" + type;
    outputs += "%y" + tower + " = aten.sum.dim_IntList(%t" + tower + ", [1]) : f32[64]\n";
  }
  for (const std::string tower : {"a", "b"}) {
    outputs += "output aux \"" + tower + "\" %y" + tower + "\n";
  }
  const Graph graph = parse_graph(text + outputs, "towers");
  const DeviceProfile& profile = device_profile("reference");
  const FissionGround ground(graph, profile);
  const AxisGraph& axes = ground.axes();
  OptimizeOptions options;
  PaperRegions regions(ground, options);
  SplitProblems problems(graph, ground, profile, 0, false);
  std::vector<std::shared_ptr<SplitProblem>> split;
  std::vector<uint64_t> keys;
  for (const std::string tower : {"a", "b"}) {
    const OpId first(std::size_t{tower == "a" ? 0U : 4U});
    const Labelling labelling = grow(axes, first, 0);
    auto region =
        largest_region(axes, labelling, labelling.operators, OpWeights(axes.graph().op_count(), 1));
    ASSERT_TRUE(region.has_value());
    region->part = 16;
    keys.push_back(regions.key({&*region, 1}));
    split.push_back(problems.find({&*region, 1}));
    ASSERT_NE(split.back(), nullptr);
    EXPECT_TRUE(split.back()->graph.loop_of(split.back()->by_name.at("h" + tower)).valid());
  }
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(split[0], split[1]);
}

}  // namespace
}  // namespace magis
