#include "search/rewriter.h"

#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/search/optimize.h"
#include "magis/search/rule_effects.h"
#include "magis/transform/rewriting.h"
#include "search/schedule_search.h"

namespace magis {
namespace {

bool never() { return false; }

Footprint in_program_order(const Graph& graph, const DeviceProfile& profile) {
  return result_of(graph, make_cost_table(graph, profile), program_order(graph)).found;
}

int times(const Graph& graph, std::string_view rule) {
  for (const auto& [name, count] : rewrites_of(graph)) {
    if (name == rule) return count;
  }
  return 0;
}

OptimizeOptions for_states(int64_t states) {
  OptimizeOptions options;
  options.state_budget = states;
  options.time_budget = 1e9;
  return options;
}

// Layers of three products of the same rows, as attention has them, their sum scaled.
std::string attention(int layers, int64_t rows, int64_t width) {
  const auto type = [](int64_t a, int64_t b) {
    return " : f32[" + std::to_string(a) + "," + std::to_string(b) + "]\n";
  };
  std::string inputs = "batch %x0 \"['x']\"" + type(rows, width);
  std::string body;
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    for (const char* w : {"q", "k", "v"}) {
      inputs += "param %w" + (w + n) + " \"" + (w + n) + "\"" + type(width, width);
      body += std::string("%view") + w + n + " = aten.view(%x" + n + ", [" + std::to_string(rows) +
              "," + std::to_string(width) + "])" + type(rows, width);
      body += std::string("%") + w + n + " = aten.mm(%view" + w + n + ", %w" + w + n + ")" +
              type(rows, width);
      body += std::string("%r") + w + n + " = aten.relu(%" + w + n + ")" + type(rows, width);
    }
    body += "%s" + n + " = aten.mul.Tensor(%rq" + n + ", %rk" + n + ")" + type(rows, width);
    body += "%x" + std::to_string(i + 1) + " = aten.mul.Tensor(%s" + n + ", %rv" + n + ")" +
            type(rows, width);
  }
  return "magis 1\ndevice cpu\n" + inputs + body + "output aux \"x\" %x" + std::to_string(layers) +
         "\n";
}

TEST(Rewriter, MergesAllLayersAlikeWhereThatPays) {
  const Graph graph = parse_graph(attention(4, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  Rewriter rewriter(graph, profile, {}, never);
  EXPECT_TRUE(rewriter.save_time(false));
  const Graph made = rewriter.graph();
  verify(made);
  EXPECT_EQ(times(made, "merge_products"), 8) << to_text(made);
  EXPECT_LT(in_program_order(made, profile).seconds, in_program_order(graph, profile).seconds);
}

// Copying the weights together takes longer than reading a few rows again.
TEST(Rewriter, LeavesProductsApartWhereMergingDoesNotPay) {
  const Graph graph = parse_graph(attention(4, 16, 512), "test");
  Rewriter rewriter(graph, device_profile("reference"), {}, never);
  rewriter.save_time(false);
  EXPECT_EQ(times(rewriter.graph(), "merge_products"), 0);
}

TEST(Rewriter, KeepsThePeakIfAsked) {
  const Graph graph = parse_graph(attention(4, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  Rewriter rewriter(graph, profile, {}, never);
  rewriter.save_time(true);
  EXPECT_EQ(times(rewriter.graph(), "merge_products"), 0);
  EXPECT_LE(in_program_order(rewriter.graph(), profile).transient_peak,
            in_program_order(graph, profile).transient_peak);
}

TEST(Rewriter, UsesNoRuleThatIsLeftOut) {
  const Graph graph = parse_graph(attention(2, 16384, 512), "test");
  Rewriter rewriter(graph, device_profile("reference"), {.without = {"merge_products"}}, never);
  rewriter.save_time(false);
  EXPECT_EQ(times(rewriter.graph(), "merge_products"), 0);
  Rewriter exact(graph, device_profile("reference"), {.exact = true}, never);
  exact.save_time(false);
  EXPECT_FALSE(rounds_otherwise(exact.graph()));
}

TEST(Rewriter, SaysWhatEachRuleDoesByItself) {
  const Graph graph = parse_graph(attention(4, 16384, 512), "test");
  const std::vector<RuleEffect> effects = rule_effects(graph, device_profile("reference"));
  const auto found = std::ranges::find(effects, "merge_products", &RuleEffect::rule);
  ASSERT_NE(found, effects.end());
  EXPECT_EQ(found->applied, 8);
  EXPECT_GT(found->saved, 0);
}

TEST(RewriteSearch, TakesNoMoreTimeThanTheGraphWithoutALimitOnMemory) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  OptimizeOptions options;
  options.limit = {.kind = Limit::Kind::memory, .bytes = Bytes{1} << 50};
  options.state_budget = 3'000;
  options.time_budget = 1e9;
  const OptimizeResult result = optimize(graph, profile, options);
  EXPECT_LT(result.found.seconds, in_program_order(graph, profile).seconds);
  ASSERT_TRUE(result.rewritten);
  EXPECT_EQ(result.baseline.seconds, in_program_order(graph, profile).seconds);
}

// What merging saves in time costs memory: all three products live together.
TEST(RewriteSearch, UndoesMergingWhereMemoryIsWorthMore) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  OptimizeOptions options;
  options.state_budget = 40'000;
  options.time_budget = 1e9;
  options.limit = {.kind = Limit::Kind::latency,
                   .seconds = 1.5 * in_program_order(graph, profile).seconds};
  const OptimizeResult with = optimize(graph, profile, options);
  options.rewrite = false;
  const OptimizeResult without = optimize(graph, profile, options);
  EXPECT_LE(with.found.transient_peak, without.found.transient_peak);
}

// Two images side by side, convolved: they and both together.
constexpr std::string_view kConcatenated = R"(magis 1
device cpu
batch %x "['x']" : f32[8,64,64,64]
param %w "w" : f32[4,128,3,3]
%a = aten.relu(%x) : f32[8,64,64,64]
%b = aten.sigmoid(%x) : f32[8,64,64,64]
%c = aten.cat([%a,%b], 1) : f32[8,128,64,64]
%y = aten.convolution(%c, %w, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[8,4,64,64]
output aux "y" %y
)";

TEST(Rewriter, SplitsWhateverTimeItTakes) {
  const Graph graph = parse_graph(kConcatenated, "test");
  const DeviceProfile& profile = device_profile("reference");
  Rewriter rewriter(graph, profile, {}, never);
  EXPECT_TRUE(rewriter.can_split());
  EXPECT_TRUE(rewriter.split_up());
  const Graph made = rewriter.graph();
  verify(made);
  EXPECT_EQ(times(made, "convolution_of_concatenation"), 1);
  EXPECT_LT(in_program_order(made, profile).transient_peak,
            in_program_order(graph, profile).transient_peak);
  EXPECT_FALSE(rewriter.can_split());
  EXPECT_FALSE(rewriter.split_up());

  const std::vector<RuleEffect> effects = rule_effects(graph, profile);
  const auto found = std::ranges::find(effects, "convolution_of_concatenation", &RuleEffect::rule);
  ASSERT_NE(found, effects.end());
  EXPECT_EQ(found->applied, 1);
  EXPECT_LT(found->peak_change, 0);
}

// What its kernels need beside their results is measured later, and estimated until then.
TEST(Rewriter, WhatStandsForAnOperatorIsTakenToNeedAsMuchScratch) {
  std::string text(kConcatenated);
  const std::string type = "f32[8,4,64,64]\n";
  text.insert(text.find(type) + type.size() - 1, " scratch 4096");
  const Graph graph = parse_graph(text, "test");
  Rewriter rewriter(graph, device_profile("reference"), {}, never);
  ASSERT_TRUE(rewriter.split_up());
  const Graph made = rewriter.graph();
  int convolutions = 0;
  for (const Operator& op : made.operators()) {
    const bool convolves = op.info->name == "aten.convolution";
    EXPECT_EQ(op.scratch, convolves ? 4096 : 0) << op.info->name;
    convolutions += convolves ? 1 : 0;
  }
  EXPECT_EQ(convolutions, 2);
}

TEST(RewriteSearch, SplitsWhereTheLimitAsksForIt) {
  const Graph graph = parse_graph(kConcatenated, "test");
  const DeviceProfile& profile = device_profile("reference");
  const Footprint before = in_program_order(graph, profile);
  OptimizeOptions options = for_states(3'000);
  options.fission = false;
  options.host_memory = 0;
  options.limit = {.kind = Limit::Kind::memory,
                   .bytes = make_cost_table(graph, profile).persistent + before.transient_peak / 2};
  const OptimizeResult with = optimize(graph, profile, options);
  EXPECT_TRUE(with.met);
  EXPECT_EQ(times(*with.rewritten, "convolution_of_concatenation"), 1);
  options.without_rules = {"convolution_of_concatenation"};
  EXPECT_FALSE(optimize(graph, profile, options).met);

  options.without_rules = {};
  const std::vector<OptimizeResult> frontier = find_frontier(graph, profile, options);
  EXPECT_LE(frontier.back().found.transient_peak, before.transient_peak / 2);
}

// The first graphs are searched for a share of the budget, which is not why all of it ended.
TEST(RewriteSearch, SaysWhyTheLastSearchEnded) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  const Bytes peak = in_program_order(graph, profile).transient_peak;
  for (const int64_t states : {200, 300, 500, 700, 1'000, 3'000}) {
    OptimizeOptions options = for_states(states);
    options.limit = {.kind = Limit::Kind::memory,
                     .bytes = make_cost_table(graph, profile).persistent + peak / 2};
    const OptimizeResult found = optimize(graph, profile, options);
    EXPECT_EQ(found.stop_reason == StopReason::state_budget, found.states_evaluated >= states)
        << found.states_evaluated << " of " << states;
  }
}

// One rule at all places a step; each stands by itself, and the graph is as it was.
TEST(Rewriter, TakesSingleSteps) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  Rewriter rewriter(graph, profile, {}, never);
  const std::string before = to_text(rewriter.graph());
  const std::vector<Rewritten> steps = rewriter.single_steps(2);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(to_text(rewriter.graph()), before);
  for (const Rewritten& step : steps) {
    EXPECT_EQ(times(step.graph, step.rules.front()), static_cast<int>(step.rules.size()));
    EXPECT_LT(in_program_order(step.graph, profile).seconds,
              in_program_order(graph, profile).seconds);
  }
  Rewriter further(steps.front().graph, profile, {}, never);
  EXPECT_EQ(rewrites_of(further.graph()), rewrites_of(steps.front().graph));
}

// Merging pays at the frontier's fast end, and costs memory at the other.
TEST(RewriteSearch, AFrontierHasPlansWithMergedProducts) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  OptimizeOptions options = for_states(60'000);
  const std::vector<OptimizeResult> plans = find_frontier(graph, profile, options);
  options.without_rules = {"merge_products", "merge_products_by_rows", "common_left_factor"};
  const std::vector<OptimizeResult> apart = find_frontier(graph, profile, options);
  EXPECT_GT(times(*plans.front().rewritten, "merge_products"), 0);
  EXPECT_LT(plans.front().found.seconds, apart.front().found.seconds);
  EXPECT_LE(plans.back().found.transient_peak, apart.back().found.transient_peak * 21 / 20);
}

TEST(RewriteSearch, ThePapersSearchTakesRulesAsSingleEdits) {
  const Graph graph = parse_graph(attention(3, 16384, 512), "test");
  const DeviceProfile& profile = device_profile("reference");
  OptimizeOptions options = for_states(500);
  options.strategy = Strategy::paper;
  options.limit = {.kind = Limit::Kind::memory, .bytes = Bytes{1} << 50};
  const OptimizeResult with = optimize(graph, profile, options);
  ASSERT_TRUE(with.rewritten);
  EXPECT_GT(times(*with.rewritten, "merge_products"), 0);
  EXPECT_LT(with.found.seconds, in_program_order(graph, profile).seconds);
  EXPECT_EQ(with.baseline.seconds, in_program_order(graph, profile).seconds);

  options.without_rules = {"merge_products"};
  const OptimizeResult apart = optimize(graph, profile, options);
  EXPECT_EQ(apart.rewritten ? times(*apart.rewritten, "merge_products") : 0, 0);
  options.rewrite = false;
  EXPECT_FALSE(optimize(graph, profile, options).rewritten);
}

TEST(RewriteSearch, AFrontierIsNotFoundByThePapersSearch) {
  OptimizeOptions options = for_states(500);
  options.strategy = Strategy::paper;
  const Graph graph = parse_graph(attention(1, 64, 64), "test");
  EXPECT_THROW(find_frontier(graph, device_profile("reference"), options), UserError);
}

}  // namespace
}  // namespace magis
