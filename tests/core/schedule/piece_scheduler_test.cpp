#include "schedule/piece_scheduler.h"

#include <gtest/gtest.h>

#include "magis/schedule/program.h"
#include "magis/simulate/simulate.h"
#include "support/exhaustive_order.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

TEST(PieceScheduler, LeastPeakAgainstAllDownsets) {
  int compared = 0;
  int improved = 0;
  for (uint64_t seed = 0; compared < 2'000; ++seed) {
    const Graph graph = test::make_random_graph(seed, 6 + static_cast<int>(seed % 9));
    if (graph.op_count() > 40) continue;
    const CostTable costs = make_cost_table(graph, device_profile("cpu"));
    const SchedulingProblem problem = make_scheduling_problem(graph, costs.bytes, costs.scratch);
    const std::optional<Bytes> least = test::least_peak_by_downsets(problem, 20'000);
    if (!least) continue;
    PlacedOrder placed(problem, program_order(problem));
    PieceScheduler scheduler;
    const SearchOutcome outcome = scheduler.improve(placed, 0, problem.size(), {.states = 1'000'000});
    ASSERT_TRUE(is_valid_order(problem, placed.order)) << seed;
    ASSERT_EQ(peak_of(problem, placed.order), outcome.peak) << seed;
    ASSERT_TRUE(outcome.exact) << seed;
    ASSERT_EQ(outcome.peak, *least) << seed;
    ++compared;
    improved += outcome.better;
  }
  EXPECT_GT(improved, 500);
}

}  // namespace
}  // namespace magis
