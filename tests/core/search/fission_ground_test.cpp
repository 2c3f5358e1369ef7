// Regions put into one another by hand.
#include "magis/search/fission_ground.h"

#include <gtest/gtest.h>

#include "analysis/analysis_support.h"

namespace magis {
namespace {

FissionRegion region_along(const Graph& graph, int axis, int64_t length, int64_t part) {
  FissionRegion region;
  region.operators = {test::find_op(graph, "a"), test::find_op(graph, "b")};
  region.labels = {{axis, 1}, {axis, 1}};
  region.length = length;
  region.part = part;
  return region;
}

// Rows in parts of 5, in each columns in parts of 4, and in these rows again, in parts of at most
// 2: of the 5, though the region around them is on another axis. The order in which the regions are
// put together does not matter.
TEST(AddChild, SplitsThePartOfTheNearestRegionOnTheSameAxis) {
  const Graph graph = test::parse_body(R"(batch %x "x" : f32[8,12]
%a = aten.relu(%x) : f32[8,12]
%b = aten.tanh(%a) : f32[8,12]
output aux "" %b
)");
  const FissionGround ground(graph, device_profile("reference"));
  FissionRegion columns = region_along(graph, 1, 12, 12);
  add_child(columns, region_along(graph, 0, 8, 8), 2);
  EXPECT_EQ(columns.children[0].length, 8);
  FissionRegion rows = region_along(graph, 0, 8, 5);
  add_child(rows, columns, 4);
  const FissionRegion& inner = rows.children[0];
  EXPECT_EQ(inner.length, 12);
  EXPECT_EQ(inner.part, 4);
  EXPECT_EQ(inner.children[0].length, 5);
  EXPECT_EQ(inner.children[0].part, 2);
  EXPECT_EQ(why_invalid(ground.axes(), rows), std::nullopt);
}

}  // namespace
}  // namespace magis
