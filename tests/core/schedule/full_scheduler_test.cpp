#include <gtest/gtest.h>

#include "magis/graph/text.h"
#include "magis/schedule/peers.h"
#include "magis/schedule/scheduler.h"
#include "schedule/list_passes.h"
#include "schedule/piece_scheduler.h"
#include "schedule/waists.h"
#include "support/exhaustive_order.h"
#include "support/random_decisions.h"
#include "support/scheduling_support.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

TEST(FullScheduler, OptimalOnTwoThousandSmallGraphs) {
  int compared = 0;
  int improved = 0;
  for (uint64_t seed = 0; compared < 2'000; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 3 + static_cast<int>(seed % 9));
    if (step.problem.size() > 16) continue;
    const Schedule schedule = schedule_fully(step.problem);
    ASSERT_TRUE(is_valid_order(step.problem, schedule.order)) << seed;
    ASSERT_TRUE(schedule.exact) << seed;
    ASSERT_EQ(schedule.peak, test::least_peak_by_downsets(step.problem).value()) << seed;
    ASSERT_EQ(schedule.peak, step.simulated_peak(schedule.order)) << seed;
    ++compared;
    improved += schedule.order != program_order(step.problem);
  }
  EXPECT_GT(improved, 500);
}

TEST(FullScheduler, NeverWorseThanTheOrderGiven) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const test::Scheduled step =
        test::random_scheduled(seed, 20 + 10 * static_cast<int>(seed % 20));
    test::Random random(seed);
    std::vector<NodeId> given;
    for (const OpId op : test::random_order(step.graph, random)) given.emplace_back(op.index);
    const FullScheduleOptions quick{.states = 500, .beam = 4, .window = 24};
    const Schedule schedule = schedule_fully(step.problem, given, quick);
    ASSERT_TRUE(is_valid_order(step.problem, schedule.order)) << seed;
    ASSERT_LE(schedule.peak, peak_of(step.problem, given)) << seed;
    ASSERT_EQ(schedule.peak, step.simulated_peak(schedule.order)) << seed;
    if (schedule.peak == peak_of(step.problem, given)) {
      EXPECT_EQ(schedule.order, given);
    }
  }
}

TEST(FullScheduler, ReducesAtOnce) {
  const test::Scheduled step(parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[2]
%a = aten.expand_copy(%x, [4,2]) : f32[4,2]
%b = aten.expand_copy(%x, [4,2]) : f32[4,2]
%w = aten.expand_copy(%x, [8,2]) : f32[8,2]
%ra = aten.sum(%a) : f32[]
%rb = aten.sum(%b) : f32[]
%rw = aten.sum(%w) : f32[]
%s = aten.add.Tensor(%ra, %rb) : f32[]
%t = aten.add.Tensor(%s, %rw) : f32[]
output loss "" %t
)",
                                         "toy"));
  // While %ra runs: %a, %b, %w, %ra.
  EXPECT_EQ(peak_of(step.problem, program_order(step.problem)), 32 + 32 + 64 + 4);
  // While %rw runs, before everything else: %w, %rw.
  EXPECT_EQ(schedule_fully(step.problem).peak, 64 + 4);
}

TEST(FullScheduler, NeverWorseThanPeersOnATransformer) {
  const test::Scheduled step(
      parse_graph(test::transformer_graph_text({.layers = 2}), "transformer"));
  const Schedule schedule = schedule_fully(step.problem);
  EXPECT_EQ(schedule.peak, step.simulated_peak(schedule.order));
  for (const PeerOrder& peer : peer_orders(step.problem)) {
    ASSERT_TRUE(is_valid_order(step.problem, peer.order)) << peer.name;
    EXPECT_LE(schedule.peak, peak_of(step.problem, peer.order)) << peer.name;
  }
}

TEST(ListPasses, NeverRaiseThePeak) {
  int lowered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 10 + static_cast<int>(seed));
    test::Random random(seed);
    std::vector<NodeId> given;
    for (const OpId op : test::random_order(step.graph, random)) given.emplace_back(op.index);
    for (void (*pass)(PlacedOrder&) : {&hasten, &postpone}) {
      PlacedOrder placed(step.problem, given);
      pass(placed);
      ASSERT_TRUE(is_valid_order(step.problem, placed.order)) << seed;
      const Bytes before = peak_of(step.problem, given);
      const Bytes after = peak_of(step.problem, placed.order);
      ASSERT_LE(after, before) << seed;
      lowered += after < before;
    }
  }
  EXPECT_GT(lowered, 100);
}

// Cutting loses nothing: the pieces' least peaks make the least peak of the whole.
TEST(Waists, PiecesAreAsGoodAsTheWhole) {
  int cuts = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 10);
    const auto least = test::least_peak_by_downsets(step.problem, 50'000);
    if (step.problem.size() > 32 || !least) continue;
    PlacedOrder placed(step.problem, program_order(step.problem));
    std::size_t begin = 0;
    PieceScheduler scheduler;
    for (const std::size_t end : cut_at_waists(placed, 0, step.problem.size())) {
      ASSERT_TRUE(is_valid_order(step.problem, placed.order));
      scheduler.improve(placed, begin, end, {.states = 1'000'000, .beam = 1});
      cuts += begin != 0;
      begin = end;
    }
    ASSERT_EQ(peak_of(step.problem, placed.order), *least) << seed;
  }
  EXPECT_GT(cuts, 100);
}

}  // namespace
}  // namespace magis
