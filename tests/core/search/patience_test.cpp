#include "search/patience.h"

#include <gtest/gtest.h>

namespace magis {
namespace {

const Objective kObjective({.kind = Limit::Kind::memory, .bytes = 1'000}, 0);

TEST(Patience, RunsOutWhereNothingBetterIsFound) {
  Patience patience(kObjective, 1, 100);
  EXPECT_TRUE(patience.lasts({2'000, 10}, 0));
  EXPECT_TRUE(patience.lasts({2'000, 10}, 12'000));
  EXPECT_FALSE(patience.lasts({2'000, 10}, 12'001));
}

TEST(Patience, LastsLongerAfterALateSuccess) {
  Patience patience(kObjective, 1, 100);
  EXPECT_TRUE(patience.lasts({2'000, 10}, 0));
  EXPECT_TRUE(patience.lasts({1'900, 10}, 10'000));
  EXPECT_TRUE(patience.lasts({1'900, 10}, 32'000));
  EXPECT_FALSE(patience.lasts({1'900, 10}, 32'001));
}

// Thousands of operators are put in order for some tens of thousands of states before anything is
// recomputed: whoever gives up then has not begun.
TEST(Patience, WaitsUntilALargeGraphIsInOrder) {
  Patience patience(kObjective, 1, 2'400);
  EXPECT_TRUE(patience.lasts({2'000, 10}, 0));
  EXPECT_TRUE(patience.lasts({2'000, 10}, 50'000));
  EXPECT_FALSE(patience.lasts({2'000, 10}, 100'000));
}

}  // namespace
}  // namespace magis
