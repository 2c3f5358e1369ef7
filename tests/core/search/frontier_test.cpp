// The whole frontier: sound, monotone, the same on any number of threads, and no worse than what a
// search for one limit finds.
#include <gtest/gtest.h>

#include <algorithm>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/search/optimize.h"
#include "search/archive.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

OptimizeOptions options_of(int64_t states) {
  OptimizeOptions options;
  options.state_budget = states;
  options.time_budget = 1e9;
  return options;
}

Graph small_bert() { return parse_graph(test::transformer_graph_text({.layers = 2}), "t"); }

void expect_sound(const Graph& graph, const DeviceProfile& profile,
                  const std::vector<OptimizeResult>& plans) {
  const CostTable costs = make_cost_table(graph, profile);
  const Footprint baseline = footprint(graph, *lower(graph, program_order(graph)), costs);
  ASSERT_FALSE(plans.empty());
  EXPECT_LE(plans.front().found.seconds, baseline.seconds * (1 + 1e-9));
  EXPECT_LE(plans.front().found.transient_peak, baseline.transient_peak);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const OptimizeResult& plan = plans[i];
    const Graph& split = plan.split ? *plan.split : graph;
    verify(split);
    const std::optional<Program> program = lower(split, plan.decisions);
    ASSERT_TRUE(program.has_value());
    verify(split, *program);
    const Footprint found = footprint(split, *program, make_cost_table(split, profile));
    EXPECT_EQ(plan.found.transient_peak, found.transient_peak);
    EXPECT_EQ(plan.found.seconds, found.seconds);
    EXPECT_EQ(plan.baseline.transient_peak, baseline.transient_peak);
    EXPECT_GE(costs.persistent + found.transient_peak, plan.bound.bytes);
    EXPECT_TRUE(plan.met);
    if (i == 0) continue;
    EXPECT_LT(found.transient_peak, plans[i - 1].found.transient_peak);
    EXPECT_GT(found.seconds, plans[i - 1].found.seconds);
  }
}

TEST(Frontier, IsSoundAndMonotone) {
  const Graph bert = small_bert();
  for (const char* device : {"cpu", "reference"}) {
    const DeviceProfile& profile = device_profile(device);
    const std::vector<OptimizeResult> plans = find_frontier(bert, profile, options_of(60'000));
    expect_sound(bert, profile, plans);
    EXPECT_GT(plans.size(), 15u);
    if (profile.name != "cpu") continue;  // there, launching small parts takes too long
    EXPECT_TRUE(std::ranges::any_of(
        plans, [](const OptimizeResult& plan) { return !plan.regions.empty(); }));
  }
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = test::make_random_graph(seed, 30);
    const DeviceProfile& profile = device_profile("cpu");
    expect_sound(graph, profile, find_frontier(graph, profile, options_of(5'000)));
  }
}

// Searches of single limits have as many states for one limit as the frontier has for all.
TEST(Frontier, ComesCloseToSearchesOfSingleLimits) {
  const Graph bert = small_bert();
  const DeviceProfile& profile = device_profile("cpu");
  const std::vector<OptimizeResult> plans = find_frontier(bert, profile, options_of(200'000));
  const double persistent = static_cast<double>(make_cost_table(bert, profile).persistent);
  for (const double ratio : {1.02, 1.05, 1.1, 1.25}) {
    OptimizeOptions options = options_of(200'000);
    options.limit = {.kind = Limit::Kind::latency,
                     .seconds = ratio * plans.front().baseline.seconds};
    const OptimizeResult single = optimize(bert, profile, options);
    const auto kept = std::ranges::find_if(plans, [&](const OptimizeResult& plan) {
      return plan.found.seconds > options.limit.seconds;
    });
    ASSERT_NE(kept, plans.begin());
    EXPECT_LE(persistent + static_cast<double>(std::prev(kept)->found.transient_peak),
              1.05 * (persistent + static_cast<double>(single.found.transient_peak)))
        << ratio;
  }
}

TEST(Frontier, IsTheSameOnAnyNumberOfThreads) {
  const Graph bert = small_bert();
  const DeviceProfile& profile = device_profile("cpu");
  OptimizeOptions options = options_of(40'000);
  const std::vector<OptimizeResult> alone = find_frontier(bert, profile, options);
  options.threads = 3;
  const std::vector<OptimizeResult> together = find_frontier(bert, profile, options);
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].decisions, together[i].decisions);
  }
}

TEST(Frontier, IsWhatThereIsWhenStopped) {
  const Graph bert = small_bert();
  const DeviceProfile& profile = device_profile("cpu");
  OptimizeOptions options = options_of(0);
  options.progress = [](const Progress&) { return false; };
  const std::vector<OptimizeResult> plans = find_frontier(bert, profile, options);
  expect_sound(bert, profile, plans);
  EXPECT_EQ(plans.front().stop_reason, StopReason::interrupted);
}

TEST(Archive, KeepsTheFastestOfEachRange) {
  struct Entry {
    Cost cost;
    int name;
  };
  Archive<Entry> archive;
  const auto offer = [&](Bytes peak, Picoseconds time, int name) {
    const bool wanted = archive.wants({peak, time});
    if (wanted) archive.put({{peak, time}, name});
    return wanted;
  };
  EXPECT_TRUE(offer(1'000'000, 50, 1));
  EXPECT_FALSE(offer(2'000'000, 50, 2));  // larger and no faster
  EXPECT_TRUE(offer(2'000'000, 40, 3));
  EXPECT_TRUE(offer(500'000, 70, 4));
  EXPECT_EQ(archive.entries().size(), 3u);
  EXPECT_TRUE(offer(500'100, 69, 5));  // of the same range
  EXPECT_EQ(archive.entries().size(), 3u);
  EXPECT_TRUE(offer(600'000, 45, 6));  // better than the one of 1'000'000
  EXPECT_EQ(archive.entries().size(), 3u);
  EXPECT_EQ(archive.entries().begin()->second.name, 5);
  EXPECT_EQ(std::prev(archive.entries().end())->second.name, 3);
  const Objective objective({.kind = Limit::Kind::memory, .bytes = 700'000}, 0);
  EXPECT_EQ(archive.best(objective)->name, 6);
}

}  // namespace
}  // namespace magis
