#include "schedule/piece_scheduler.h"

#include <gtest/gtest.h>

#include "support/exhaustive_order.h"
#include "support/scheduling_support.h"

namespace magis {
namespace {

constexpr SearchLimits kExact{.states = 1'000'000, .beam = 1};

TEST(PieceScheduler, PlainDynamicProgramAgainstAllOrders) {
  int compared = 0;
  for (uint64_t seed = 0; compared < 100; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 5);
    if (step.problem.size() > 9) continue;
    const test::PeakRange range = test::peaks_of_all_orders(step.problem);
    ASSERT_EQ(test::least_peak_by_downsets(step.problem).value(), range.least) << seed;
    ++compared;
  }
}

TEST(PieceScheduler, LeastPeakOfPiecesOfUpToFortyNodes) {
  int compared = 0;
  int improved = 0;
  for (uint64_t seed = 0; compared < 1'000; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 8 + static_cast<int>(seed % 12));
    if (step.problem.size() > 40) continue;
    const auto least = test::least_peak_by_downsets(step.problem, 20'000);
    if (!least) continue;
    PlacedOrder placed(step.problem, program_order(step.problem));
    const PieceOutcome outcome = PieceScheduler().improve(placed, 0, step.problem.size(), kExact);
    ASSERT_TRUE(is_valid_order(step.problem, placed.order)) << seed;
    ASSERT_TRUE(outcome.exact) << seed;
    ASSERT_EQ(outcome.peak, *least) << seed;
    ASSERT_EQ(step.simulated_peak(placed.order), *least) << seed;
    ++compared;
    improved += outcome.better;
  }
  EXPECT_GT(improved, 300);
}

// The rest of the order stays where it is, and the bytes around the stretch count as they are.
TEST(PieceScheduler, LeastPeakOfAStretchInTheMiddle) {
  int improved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 30);
    const std::vector<NodeId> before = program_order(step.problem);
    PlacedOrder placed(step.problem, before);
    const std::size_t begin = step.problem.size() / 3;
    const std::size_t end = 2 * step.problem.size() / 3;
    const Bytes live = [&] {
      LiveBytesOfOrder bytes(step.problem);
      for (std::size_t k = 0; k < begin; ++k) bytes.run(before[k]);
      return bytes.live();
    }();
    const PieceOutcome outcome = PieceScheduler().improve(placed, begin, end, kExact);
    ASSERT_TRUE(is_valid_order(step.problem, placed.order)) << seed;
    for (std::size_t k = 0; k < before.size(); ++k) {
      if (k < begin || k >= end) {
        ASSERT_EQ(placed.order[k], before[k]);
      }
    }
    LiveBytesOfOrder bytes(step.problem);
    Bytes peak_inside = 0;
    for (std::size_t k = 0; k < end; ++k) {
      const Bytes during = bytes.run(placed.order[k]);
      if (k >= begin) peak_inside = std::max(peak_inside, during);
    }
    ASSERT_EQ(peak_inside, live + outcome.peak) << seed;
    improved += outcome.better;
  }
  EXPECT_GT(improved, 50);
}

TEST(PieceScheduler, BeamIsValidAndNeverWorse) {
  int improved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 60);
    PlacedOrder placed(step.problem, program_order(step.problem));
    const std::size_t end = std::min(step.problem.size(), PieceScheduler::kMostNodes);
    const Bytes before = peak_of(step.problem, placed.order);
    const PieceOutcome outcome = PieceScheduler().improve(placed, 0, end, {.states = 0, .beam = 8});
    ASSERT_TRUE(is_valid_order(step.problem, placed.order)) << seed;
    ASSERT_LE(peak_of(step.problem, placed.order), before) << seed;
    improved += outcome.better;
  }
  EXPECT_GT(improved, 50);
}

TEST(PieceScheduler, KeepsProgramOrderWhereNothingIsBetter) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 12);
    PlacedOrder placed(step.problem, program_order(step.problem));
    PieceScheduler scheduler;
    scheduler.improve(placed, 0, step.problem.size(), kExact);
    const std::vector<NodeId> best = placed.order;
    const PieceOutcome again = scheduler.improve(placed, 0, step.problem.size(), kExact);
    EXPECT_FALSE(again.better);
    EXPECT_EQ(placed.order, best);
  }
}

}  // namespace
}  // namespace magis
