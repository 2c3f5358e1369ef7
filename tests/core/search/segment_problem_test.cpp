// The scheduler's view of a schedule: on the present order it counts the evaluator's bytes, and the
// orders that it allows stay valid, each use reading the copy that it read before.
#include "search/segment_problem.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "search/rescheduling.h"
#include "support/random.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

using test::Random;

TEST(SegmentProblem, CountsThePeakOfThePresentOrder) {
  int copies = 0;
  int equal = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::make_random_graph(seed, 50);
    const CostTable costs = make_cost_table(graph, device_profile("reference"));
    const Problem problem(graph, costs);
    Evaluator evaluator(problem);
    Random random(seed);
    evaluator.load(test::random_decisions(graph, random, 25));
    ASSERT_TRUE(evaluator.feasible());
    copies += evaluator.recomputed_operators();
    const SegmentProblem segments = make_segment_problem(evaluator, LoopId());
    ASSERT_EQ(segments.problem.size(), graph.op_count());
    const std::vector<NodeId> order = program_order(segments.problem);
    ASSERT_TRUE(is_valid_order(segments.problem, order));
    // An operator with copies of its own counts its result in full, though it may run in place.
    const Bytes counted = peak_of(segments.problem, order);
    EXPECT_GE(counted, evaluator.peak()) << seed;
    EXPECT_LE(counted, evaluator.peak() * 5 / 4) << seed;
    equal += counted == evaluator.peak() ? 1 : 0;
  }
  EXPECT_GE(equal, 50);
  EXPECT_GT(copies, 100);
}

TEST(Rescheduling, KeepsSchedulesValidAndWhatIsRecomputed) {
  int reordered = 0;
  int lowered = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::make_random_graph(seed, 60);
    const CostTable costs = make_cost_table(graph, device_profile("reference"));
    const Problem problem(graph, costs);
    Evaluator evaluator(problem);
    Evaluator trial(problem);
    IncrementalScheduler scheduler(rescheduling_options());
    Random random(seed);
    Decisions decisions = test::random_decisions(graph, random, 20);
    evaluator.load(decisions);
    const OpId changed(static_cast<std::size_t>(random.below(graph.op_count())));
    const auto better = rescheduled(evaluator, trial, scheduler, LoopId(), {{changed}});
    if (!better) continue;
    ++reordered;
    EXPECT_EQ(better->modes, decisions.modes);
    const std::optional<Program> program = lower(graph, *better);
    ASSERT_TRUE(program.has_value());
    verify(graph, *program);
    EXPECT_EQ(footprint(graph, *program, costs).transient_peak, trial.peak());
    lowered += trial.peak() < evaluator.peak() ? 1 : 0;
  }
  EXPECT_GT(reordered, 20);
  EXPECT_GT(lowered, 3);
}

}  // namespace
}  // namespace magis
