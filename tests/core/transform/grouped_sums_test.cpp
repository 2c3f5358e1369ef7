// Sums that wait for each other: which, for how long, and that none gets lost.
#include "transform/grouped_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "magis/graph/builder.h"
#include "transform/fission_support.h"

namespace magis {
namespace {

GroupedSums::Sum sum_of(int32_t whole, int32_t part) {
  GroupedSums::Sum sum;
  sum.write.info = &op_info("magis.add_part");
  sum.write.args = {{ValueId(whole)}, {ValueId(part)}};
  sum.name = "n" + std::to_string(whole);
  return sum;
}

Type floats(int64_t count, DType dtype = DType::f32) {
  Type type{.dtype = dtype, .shape = {count}, .strides = {1}};
  type.storage = minimal_storage(type);
  return type;
}

std::string text_of(const std::optional<GroupedSums::Sum>& sum) {
  if (!sum) return "";
  std::string text = sum->write.info->name;
  for_each_value(sum->write, [&](ValueId id) { text += " " + std::to_string(id.index); });
  return text + " " + sum->name;
}

TEST(GroupedSums, WaitForEachOther) {
  GroupedSums sums(100);
  EXPECT_EQ(text_of(sums.take()), "");
  EXPECT_EQ(text_of(sums.add(sum_of(1, 11), floats(10))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(2, 12), floats(10))), "");
  EXPECT_EQ(text_of(sums.take()), "magis.add_parts 1 2 11 12 n1");
  EXPECT_EQ(text_of(sums.take()), "");
}

TEST(GroupedSums, AloneStayWhatTheyAre) {
  GroupedSums sums(100);
  EXPECT_EQ(text_of(sums.add(sum_of(1, 11), floats(10))), "");
  EXPECT_EQ(text_of(sums.take()), "magis.add_part 1 11 n1");
}

TEST(GroupedSums, GoWhenThereAreEnough) {
  GroupedSums sums(100);
  EXPECT_EQ(text_of(sums.add(sum_of(1, 11), floats(10))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(2, 12), floats(10))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(3, 13), floats(10))), "magis.add_parts 1 2 11 12 n1");
  EXPECT_EQ(text_of(sums.take()), "magis.add_part 3 13 n3");
}

TEST(GroupedSums, LargeOnesDoNotWait) {
  GroupedSums sums(100);
  EXPECT_EQ(text_of(sums.add(sum_of(1, 11), floats(10))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(2, 12), floats(30))), "magis.add_part 2 12 n2");
  EXPECT_EQ(text_of(sums.take()), "magis.add_part 1 11 n1");
}

// One kernel adds tensors of one dtype.
TEST(GroupedSums, AreOfOneDtype) {
  GroupedSums sums(100);
  EXPECT_EQ(text_of(sums.add(sum_of(1, 11), floats(4))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(2, 12), floats(4))), "");
  EXPECT_EQ(text_of(sums.add(sum_of(3, 13), floats(4, DType::f64))),
            "magis.add_parts 1 2 11 12 n1");
  EXPECT_EQ(text_of(sums.take()), "magis.add_part 3 13 n3");
}

// Two biases' gradients are added at once, at the end of the body; they have to be small beside all
// results of the loop.
TEST(GroupedSums, InASplitGraph) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[8,16]
%a = aten.relu(%x) : f32[8,16]
%b = aten.tanh(%x) : f32[8,16]
%da = aten.sum.dim_IntList(%a, [0]) : f32[16] backward
%db = aten.sum.dim_IntList(%b, [0]) : f32[16] backward
%y = aten.exp(%a) : f32[8,16]
%z = aten.exp(%b) : f32[8,16]
output aux "y" %y
output aux "z" %z
output grad "a" %da
output grad "b" %db
)",
                                  "test");
  std::map<std::string, Label> labels;
  for (const char* name : {"a", "b", "da", "db", "y", "z"}) labels[name] = {0, 1};
  const std::string text = body(split(graph, {region_of(graph, labels, 8, 2)}));
  EXPECT_NE(text.find("%da_written = magis.add_parts([%da,%db], [%da_part,%db_part]) : none "
                      "backward\n%r1_end"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace magis
