#include "magis/schedule/scheduling_problem.h"

#include <gtest/gtest.h>

#include "magis/graph/text.h"
#include "magis/schedule/peers.h"
#include "magis/schedule/scheduler.h"
#include "support/random_decisions.h"
#include "support/scheduling_support.h"

namespace magis {
namespace {

TEST(SchedulingProblem, CountsAsTheSimulatorDoes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 5 + static_cast<int>(seed % 60));
    test::Random random(seed);
    std::vector<NodeId> order;
    for (const OpId op : test::random_order(step.graph, random)) order.emplace_back(op.index);
    ASSERT_TRUE(is_valid_order(step.problem, order));
    ASSERT_EQ(peak_of(step.problem, order), step.simulated_peak(order)) << seed;
  }
}

// A stretch that stays together is one node with an inner peak: whatever runs around it, bytes are
// those of its operators one by one, for what it reads from outside is read by its last operator.
TEST(SchedulingProblem, StretchesStayTogether) {
  const test::Scheduled step(parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[4]
%h = aten.exp(%x) : f32[4]
%a = aten.expand_copy(%h, [8,4]) : f32[8,4]
%b = aten.sum.dim_IntList(%a, [0]) : f32[4]
%c = aten.add.Tensor(%b, %h) : f32[4]
%other = aten.expand_copy(%x, [2,4]) : f32[2,4]
%d = aten.sum.dim_IntList(%other, [0]) : f32[4]
%loss = aten.add.Tensor(%c, %d) : f32[4]
output loss "" %loss
)",
                                         "toy"));
  const std::vector<std::vector<OpId>> together{{OpId(1), OpId(2), OpId(3)}};
  const SchedulingProblem problem =
      make_scheduling_problem(step.graph, step.costs.bytes, step.costs.scratch, together);
  ASSERT_EQ(problem.size(), 5u);
  const std::size_t stretch = 1;
  EXPECT_EQ(problem.operators[stretch].size(), 3u);
  EXPECT_EQ(problem.results[stretch], 16);             // %c
  EXPECT_EQ(problem.scratch[stretch], 128 + 16 - 16);  // %a and %b, then %b and %c in place
  std::vector<NodeId> order = program_order(problem);
  std::vector<NodeId> late{NodeId(2), NodeId(3), NodeId(0), NodeId(1), NodeId(4)};
  for (const std::vector<NodeId>& nodes : {order, late}) {
    ASSERT_TRUE(is_valid_order(problem, nodes));
    Decisions decisions = program_order(step.graph);
    decisions.order = operators_in_order(problem, nodes);
    const Program program = lower(step.graph, decisions).value();
    EXPECT_EQ(peak_of(problem, nodes), footprint(step.graph, program, step.costs).transient_peak);
  }
  EXPECT_EQ(schedule_fully(problem).peak, 16 + 128 + 16);
}

// A loop is one node; what surrounds it may move, and bytes stay those of the simulator.
TEST(SchedulingProblem, LoopsAreNodes) {
  const test::Scheduled step(parse_graph(R"(magis 1
device cpu
param %w "w" : f32[64,32]
batch %x "x" : f32[8,64]
%h = aten.relu(%x) : f32[8,64]
%aside = aten.expand_copy(%x, [2,8,64]) : f32[2,8,64]
%dw, %y = magis.begin("r1", 3, 8, [%h]) : f32[64,32], f32[8,32]
%part = magis.part(%h, 0, 1*r1) : f32[3,64]/2048
%mm = aten.mm(%part, %w) : f32[3,32]
%g = aten.relu(%mm) : f32[3,32]
%n1 = magis.write_part(%y, 0, 1*r1, %g) : none
%t = aten.permute(%part, [1,0]) : f32[64,3]{1,64}/2048
%n2 = magis.add_mm_part(%dw, %t, %g) : none
%end = magis.end("r1", [%dw,%y], [%h]) : none
%z = aten.sum(%y) : f32[]
%s = aten.sum(%aside) : f32[]
%loss = aten.add.Tensor(%z, %s) : f32[]
output loss "" %loss
output grad "w" %dw
)",
                                         "loop"));
  ASSERT_EQ(step.problem.size(), 6u);
  const std::size_t loop = 2;
  EXPECT_EQ(step.problem.results[loop], 64 * 32 * 4 + 8 * 32 * 4);  // %dw, %y
  EXPECT_EQ(step.problem.scratch[loop], 3 * 32 * 4);                // %mm, then %g over it
  const std::vector<NodeId> aside_last{NodeId(0), NodeId(2), NodeId(3),
                                       NodeId(1), NodeId(4), NodeId(5)};
  for (const auto& order : {program_order(step.problem), aside_last}) {
    ASSERT_TRUE(is_valid_order(step.problem, order));
    EXPECT_EQ(peak_of(step.problem, order), step.simulated_peak(order));
  }
  const Schedule schedule = schedule_fully(step.problem);
  EXPECT_EQ(schedule.peak, step.simulated_peak(schedule.order));
  // While the loop runs: %h, %dw, %y, %g; %aside was summed before, to %s.
  EXPECT_EQ(schedule.peak, 2048 + 8192 + 1024 + 384 + 4);
}

// %wide (64 bytes) is reduced to %narrow (8); %big (32) beside it.
constexpr const char* kBranches = R"(magis 1
device cpu
batch %x "x" : f32[2]
%big = aten.expand_copy(%x, [4,2]) : f32[4,2]
%wide = aten.expand_copy(%x, [8,2]) : f32[8,2]
%narrow = aten.sum.dim_IntList(%wide, [0]) : f32[2]
%low = aten.sum.dim_IntList(%big, [0]) : f32[2]
%loss = aten.add.Tensor(%narrow, %low) : f32[2]
output loss "" %loss
)";

TEST(Peers, FollowTheirDescriptions) {
  const test::Scheduled step(parse_graph(kBranches, "branches"));
  const auto names = [&](const std::vector<NodeId>& order) {
    std::string text;
    for (const OpId op : operators_in_order(step.problem, order)) {
      text += step.graph.value(step.graph.op(op).results[0]).name + " ";
    }
    return text;
  };
  // Nothing is within 0 bytes, so the least first: %big (32); then %low (40) before %wide (96).
  EXPECT_EQ(names(inductor_lpmf_order(step.problem)), "big low wide narrow loss ");
  // Neither source waits for anything; then whose predecessor ran first.
  EXPECT_EQ(names(inductor_bfs_order(step.problem)), "big wide low narrow loss ");
  // Bytes: loss 24, big 32, low 40, wide 64, narrow 72: %loss and what it needs, operands first.
  EXPECT_EQ(names(inductor_dfs_order(step.problem)), "wide narrow big low loss ");
  EXPECT_EQ(names(reverse_post_order(step.problem)), "big low wide narrow loss ");
}

}  // namespace
}  // namespace magis
