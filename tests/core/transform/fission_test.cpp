// Split graphs, as text and in bytes. That they compute the same is held against the reference
// evaluator in tests/python/truth.
#include "magis/transform/fission.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/simulate/simulate.h"
#include "support/figure2.h"
#include "transform/fission_support.h"

namespace magis {
namespace {

Bytes peak(const Graph& graph) {
  const CostTable costs = make_cost_table(graph, device_profile("reference"));
  const auto program = lower(graph, program_order(graph));
  verify(graph, *program);
  return footprint(graph, *program, costs).transient_peak;
}

// The paper's figure 5: part of an MLP's training graph, split along the batch. v0 and v2 are
// sliced, v1 is shared, v6 and v7 are concatenated, v8 is a sum.
TEST(Fission, SplitsAnMlpAlongTheBatch) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
param %v1 "w" : f32[16,24]
batch %v0 "x" : f32[8,16]
batch %v2 "y" : f32[8,24]
%v3 = aten.relu(%v0) : f32[8,16]
%v4 = aten.mm(%v3, %v1) : f32[8,24]
%v5 = aten.mul.Tensor(%v4, %v2) : f32[8,24]
%v6 = aten.tanh(%v4) : f32[8,24]
%v1t = aten.permute(%v1, [1,0]) : f32[24,16]{1,24}
%v7 = aten.mm(%v5, %v1t) : f32[8,16]
%v3t = aten.permute(%v3, [1,0]) : f32[16,8]{1,16}
%v8 = aten.mm(%v3t, %v5) : f32[16,24]
output aux "a" %v6
output aux "b" %v7
output grad "w" %v8
)",
                                  "test");
  const FissionRegion region = region_of(graph,
                                         {{"v3", {0, 1}},
                                          {"v4", {0, 1}},
                                          {"v5", {0, 1}},
                                          {"v6", {0, 1}},
                                          {"v7", {0, 1}},
                                          {"v8", {1, 1}}},
                                         8, 4);
  EXPECT_EQ(body(split(graph, {region})),
            R"(%v6, %v7, %v8 = magis.begin("r1", 4, 8, []) : f32[8,24], f32[8,16], f32[16,24]
%v0_slice = magis.part(%v0, 0, 1*r1) : f32[4,16]/512
%v3 = aten.relu(%v0_slice) : f32[4,16]
%v4 = aten.mm(%v3, %v1) : f32[4,24]
%v2_slice = magis.part(%v2, 0, 1*r1) : f32[4,24]/768
%v5 = aten.mul.Tensor(%v4, %v2_slice) : f32[4,24]
%v6_part = aten.tanh(%v4) : f32[4,24]
%v6_written = magis.write_part(%v6, 0, 1*r1, %v6_part) : none
%v1t = aten.permute(%v1, [1,0]) : f32[24,16]{1,24}
%v7_part = aten.mm(%v5, %v1t) : f32[4,16]
%v7_written = magis.write_part(%v7, 0, 1*r1, %v7_part) : none
%v3t = aten.permute(%v3, [1,0]) : f32[16,4]{1,16}
%v8_written = magis.add_mm_part(%v8, %v3t, %v5) : none
%r1_end = magis.end("r1", [%v6,%v7,%v8], []) : none
)");
}

TEST(Fission, FigureTwoInSixteenParts) {
  constexpr Bytes kElement = 4;
  const Graph graph = parse_graph(test::figure2(), "test");
  EXPECT_EQ(peak(graph), 1088 * kElement);
  std::map<std::string, Label> labels = {{"m", {0, 1}}};
  for (int i = 1; i <= 32; ++i) {
    if (i > 1) labels["x" + std::to_string(i)] = {0, 1};
    labels["y" + std::to_string(i)] = {0, 1};
  }
  // x1 and the result in full, 31 x, the middle and one y of two elements each.
  EXPECT_EQ(peak(split(graph, {region_of(graph, labels, 32, 2)})), 130 * kElement);
}

// [2,3] rows of 4 as six rows: the batch leads, so three rows belong to each sample; a part of one
// sample is three rows.
TEST(Fission, FollowsTheBatchThroughViews) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
param %w "w" : f32[4,8]
batch %x "x" : f32[2,3,4]
%a = aten.relu(%x) : f32[2,3,4]
%rows = aten.view(%a, [6,4]) : f32[6,4]
%b = aten.mm(%rows, %w) : f32[6,8]
%back = aten.view(%b, [2,3,8]) : f32[2,3,8]
%c = aten.tanh(%back) : f32[2,3,8]
output aux "" %c
)",
                                  "test");
  const FissionRegion region =
      region_of(graph, {{"a", {0, 1}}, {"b", {0, 3}}, {"c", {0, 1}}}, 2, 1);
  EXPECT_EQ(body(split(graph, {region})), R"(%c = magis.begin("r1", 1, 2, []) : f32[2,3,8]
%x_slice = magis.part(%x, 0, 1*r1) : f32[1,3,4]/96
%a = aten.relu(%x_slice) : f32[1,3,4]
%rows = aten.view(%a, [3*r1,4]) : f32[3,4]
%b = aten.mm(%rows, %w) : f32[3,8]
%back = aten.view(%b, [1*r1,3,8]) : f32[1,3,8]
%c_part = aten.tanh(%back) : f32[1,3,8]
%c_written = magis.write_part(%c, 0, 1*r1, %c_part) : none
%r1_end = magis.end("r1", [%c], []) : none
)");
}

// What was contiguous as a whole is not as a slice of columns: its view reads a copy.
TEST(Fission, CopiesWhereAViewOfAPartIsIllegal) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[2,6,4]
%a = aten.relu(%x) : f32[2,6,4]
%p = aten.permute(%a, [1,0,2]) : f32[6,2,4]{4,24,1}
%b = aten.tanh(%p) : f32[6,2,4]{4,24,1}
%q = aten.permute(%b, [1,0,2]) : f32[2,6,4]
%v = aten.view(%q, [12,4]) : f32[12,4]
%c = aten.sum.dim_IntList(%v, [1]) : f32[12]
output aux "" %c
)",
                                  "test");
  const FissionRegion region =
      region_of(graph, {{"a", {0, 1}}, {"b", {1, 1}}, {"c", {0, 6}}}, 2, 1);
  const std::string text = body(split(graph, {region}));
  EXPECT_NE(text.find("%v = aten.view(%q, [6*r1,4]) : f32[6,4]"), std::string::npos) << text;
}

// The statistics of a norm are read as they lie in memory: a slice along the sequence is copied.
TEST(Fission, CopiesWhatAKernelReadsAsContiguousMemory) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[2,6,4]
batch %mean "mean" : f32[2,6,1]
batch %rstd "rstd" : f32[2,6,1]
%g = aten.relu(%x) : f32[2,6,4]
%dx, %dw, %db = aten.native_layer_norm_backward(%g, %x, [4], %mean, %rstd, none, none, [true,false,false]) : f32[2,6,4], none, none
output aux "" %dx
)",
                                  "test");
  EXPECT_EQ(body(split(graph, {region_of(graph, {{"g", {1, 1}}, {"dx", {1, 1}}}, 6, 3)})),
            R"(%dx = magis.begin("r1", 3, 6, []) : f32[2,6,4]
%x_slice = magis.part(%x, 1, 1*r1) : f32[2,3,4]{24,4,1}/192
%g = aten.relu(%x_slice) : f32[2,3,4]
%mean_slice = magis.part(%mean, 1, 1*r1) : f32[2,3,1]{6,1,1}/48
%mean_slice_contiguous = aten.clone(%mean_slice, memory_format=torch.contiguous_format) : f32[2,3,1]
%rstd_slice = magis.part(%rstd, 1, 1*r1) : f32[2,3,1]{6,1,1}/48
%rstd_slice_contiguous = aten.clone(%rstd_slice, memory_format=torch.contiguous_format) : f32[2,3,1]
%dx_part, %dw, %db = aten.native_layer_norm_backward(%g, %x_slice, [4], %mean_slice_contiguous, %rstd_slice_contiguous, none, none, [true,false,false]) : f32[2,3,4], none, none
%dx_written = magis.write_part(%dx, 1, 1*r1, %dx_part) : none
%r1_end = magis.end("r1", [%dx], []) : none
)");
}

// Sums of 16-bit parts are added up in float32 and rounded once.
TEST(Fission, AddsHalfPrecisionInFloat32) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : bf16[8,4]
%a = aten.relu(%x) : bf16[8,4]
%s = aten.sum.dim_IntList(%a, [0]) : bf16[4]
output aux "" %s
)",
                                  "test");
  EXPECT_EQ(body(split(graph, {region_of(graph, {{"a", {0, 1}}, {"s", {0, 1}}}, 8, 2)})),
            R"(%s_sum = magis.begin("r1", 2, 8, []) : f32[4]
%x_slice = magis.part(%x, 0, 1*r1) : bf16[2,4]/64
%a = aten.relu(%x_slice) : bf16[2,4]
%s_part = aten.sum.dim_IntList(%a, [0]) : bf16[4]
%s_written = magis.add_part(%s_sum, %s_part) : none
%r1_end = magis.end("r1", [%s_sum], []) : none
%s = aten._to_copy(%s_sum, dtype=torch.bfloat16) : bf16[4]
)");
}

// Inside a part of the batch, a loop over the same axis splits the part, one over another axis its
// own length.
TEST(Fission, Nests) {
  const std::string text = R"(magis 1
device cpu
param %w "w" : f32[4,16]
batch %x "x" : f32[12,4]
%a = aten.relu(%x) : f32[12,4]
%b = aten.mm(%a, %w) : f32[12,16]
%c = aten.tanh(%b) : f32[12,16]
%s = aten.sum(%c) : f32[]
output loss "" %s
)";
  const Graph graph = parse_graph(text, "test");
  FissionRegion outer =
      region_of(graph, {{"a", {0, 1}}, {"b", {0, 1}}, {"c", {0, 1}}, {"s", {0, 1}}}, 12, 5);
  outer.children = {region_of(graph, {{"b", {0, 1}}, {"c", {0, 1}}}, 5, 2)};
  EXPECT_EQ(body(split(graph, {outer})), R"(%s = magis.begin("r1", 5, 12, []) : f32[]
%x_slice = magis.part(%x, 0, 1*r1) : f32[5,4]/192
%a = aten.relu(%x_slice) : f32[5,4]
%c_r2 = magis.begin("r2", 2, 1*r1, [%a], [[1*r1,16]]) : f32[5,16]
%a_slice = magis.part(%a, 0, 1*r2) : f32[2,4]/80
%b = aten.mm(%a_slice, %w) : f32[2,16]
%c_part = aten.tanh(%b) : f32[2,16]
%c_written = magis.write_part(%c_r2, 0, 1*r2, %c_part) : none
%r2_end = magis.end("r2", [%c_r2], [%a]) : none
%s_part = aten.sum(%c_r2) : f32[]
%s_written = magis.add_part(%s, %s_part) : none
%r1_end = magis.end("r1", [%s], []) : none
)");
  outer.children = {region_of(graph, {{"b", {2, 1}}, {"c", {1, 1}}, {"s", {1, 1}}}, 16, 8)};
  EXPECT_EQ(body(split(graph, {outer})), R"(%s = magis.begin("r1", 5, 12, []) : f32[]
%x_slice = magis.part(%x, 0, 1*r1) : f32[5,4]/192
%a = aten.relu(%x_slice) : f32[5,4]
%s_r2 = magis.begin("r2", 8, 16, [%a]) : f32[]
%w_slice = magis.part(%w, 1, 1*r2) : f32[4,8]{16,1}/256
%b = aten.mm(%a, %w_slice) : f32[5,8]
%c = aten.tanh(%b) : f32[5,8]
%s_part = aten.sum(%c) : f32[]
%s_written = magis.add_part(%s_r2, %s_part) : none
%r2_end = magis.end("r2", [%s_r2], [%a]) : none
%s_written_2 = magis.add_part(%s, %s_r2) : none
%r1_end = magis.end("r1", [%s], []) : none
)");
}

TEST(Fission, LeavesAnUnsplitGraphAsItIs) {
  const Graph graph = parse_graph(test::figure2(), "test");
  EXPECT_EQ(to_text(split(graph, {region_of(graph, {{"m", {0, 1}}}, 32, 32)})), to_text(graph));
}

}  // namespace
}  // namespace magis
