#include "search/part_lengths.h"

#include <gtest/gtest.h>

namespace magis {
namespace {

using Lengths = std::vector<int64_t>;

TEST(PartLengths, DivideAsEvenlyAsMayBe) {
  EXPECT_EQ(part_lengths(8, 10), (Lengths{4, 3, 2, 1}));
  EXPECT_EQ(part_lengths(7, 10), (Lengths{4, 3, 2, 1}));
  EXPECT_EQ(part_lengths(2, 10), Lengths{1});
  EXPECT_TRUE(part_lengths(1, 10).empty());
}

TEST(PartLengths, ThinOutButKeepTheShortest) {
  const Lengths lengths = part_lengths(2048, 10);
  EXPECT_LE(lengths.size(), 10u);
  EXPECT_EQ(lengths.front(), 1024);
  EXPECT_EQ(lengths[1], 683);
  EXPECT_EQ(lengths.back(), 1);
}

TEST(PartLengths, Halve) {
  EXPECT_EQ(halved_lengths(12), (Lengths{6, 3, 2}));
  EXPECT_EQ(halved_lengths(3), Lengths{2});
}

}  // namespace
}  // namespace magis
