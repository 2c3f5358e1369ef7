// What an operator adds once to a sum is left out of the parts and added to what they add up to.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "magis/graph/text.h"
#include "magis/transform/fission.h"
#include "transform/fission_support.h"

namespace magis {
namespace {

Graph matrix_graph(const std::string& call, const std::string& dtype = "f32") {
  std::string text = R"(magis 1
device cpu
param %bias "b" : D[4]
batch %x "x" : D[8,16]
param %w "w" : D[16,4]
%a = aten.relu(%x) : D[8,16]
%b = CALL : D[8,4]
output aux "" %b
)";
  for (std::size_t at; (at = text.find("D[")) != text.npos;) text.replace(at, 1, dtype);
  text.replace(text.find("CALL"), 4, call);
  return parse_graph(text, "test");
}

// Along the inner axis of the product: four parts.
std::string split_inner(const Graph& graph) {
  return body(split(graph, {region_of(graph, {{"a", {1, 1}}, {"b", {1, 1}}}, 16, 4)}));
}

TEST(Addend, ABiasIsAddedToTheSumOfTheProducts) {
  EXPECT_EQ(split_inner(matrix_graph("aten.addmm(%bias, %a, %w)")),
            R"(%b_sum = magis.begin("r1", 4, 16, []) : f32[8,4]
%x_slice = magis.part(%x, 1, 1*r1) : f32[8,4]{16,1}/512
%a = aten.relu(%x_slice) : f32[8,4]
%w_slice = magis.part(%w, 0, 1*r1) : f32[4,4]/256
%b_written = magis.add_mm_part(%b_sum, %a, %w_slice) : none
%r1_end = magis.end("r1", [%b_sum], []) : none
%b = aten.add.Tensor(%b_sum, %bias) : f32[8,4]
)");
}

TEST(Addend, ScalesStayWithWhatTheyScale) {
  const std::string text =
      split_inner(matrix_graph("aten.addmm(%bias, %a, %w, beta=0.5, alpha=2)"));
  EXPECT_NE(text.find("%b_part = aten.addmm(%bias_zeros, %a, %w_slice, beta=0.5, alpha=2)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%b = aten.add.Tensor(%b_sum, %bias, alpha=0.5)"), std::string::npos) << text;
}

// beta is 0: the operand is not even read.
TEST(Addend, NothingIsAddedWhereItCountsForNothing) {
  const std::string text = split_inner(matrix_graph("aten.addmm(%bias, %a, %w, beta=0)"));
  EXPECT_NE(text.find("aten.addmm(%bias, %a, %w_slice, beta=0)"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.add.Tensor"), std::string::npos) << text;
}

// The sum is kept in float32 until the bias is in it.
TEST(Addend, HalfPrecisionIsRoundedOnce) {
  const std::string text = split_inner(matrix_graph("aten.addmm(%bias, %a, %w)", "bf16"));
  EXPECT_NE(text.find("%b_part = aten.mm(%a, %w_slice) : bf16[8,4]\n"
                      "%b_written = magis.add_part(%b_sum, %b_part) : none\n"
                      "%r1_end = magis.end(\"r1\", [%b_sum], []) : none\n"
                      "%b_sum_2 = aten.add.Tensor(%b_sum, %bias) : f32[8,4]\n"
                      "%b = aten._to_copy(%b_sum_2, dtype=torch.bfloat16) : bf16[8,4]\n"),
            std::string::npos)
      << text;
}

// Rows in two parts, the inner axis of each in four: only the inner region's sum lacks the bias,
// and it is the slice for these rows that is added to it. The bias is read in the outer body alone.
TEST(Addend, IsAddedWhereTheSumIsComplete) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[8,16]
param %w "w" : f32[16,4]
batch %y "y" : f32[8,4]
%c = aten.tanh(%y) : f32[8,4]
%a = aten.relu(%x) : f32[8,16]
%b = aten.addmm(%c, %a, %w) : f32[8,4]
output aux "" %b
)",
                                  "test");
  FissionRegion rows = region_of(graph, {{"a", {0, 1}}, {"b", {0, 1}}}, 8, 4);
  rows.children = {region_of(graph, {{"a", {1, 1}}, {"b", {1, 1}}}, 16, 4)};
  EXPECT_EQ(body(split(graph, {rows})), R"(%c = aten.tanh(%y) : f32[8,4]
%b = magis.begin("r1", 4, 8, [%c]) : f32[8,4]
%b_sum_r2 = magis.begin("r2", 4, 16, [], [[1*r1,4]]) : f32[4,4]
%x_slice = magis.part(%x, 0, 1*r1) : f32[4,16]/512
%x_slice_slice = magis.part(%x_slice, 1, 1*r2) : f32[4,4]{16,1}/512
%a = aten.relu(%x_slice_slice) : f32[4,4]
%w_slice = magis.part(%w, 0, 1*r2) : f32[4,4]/256
%b_written = magis.add_mm_part(%b_sum_r2, %a, %w_slice) : none
%r2_end = magis.end("r2", [%b_sum_r2], []) : none
%c_slice = magis.part(%c, 0, 1*r1) : f32[4,4]/128
%b_2 = aten.add.Tensor(%b_sum_r2, %c_slice) : f32[4,4]
%b_written_2 = magis.write_part(%b, 0, 1*r1, %b_2) : none
%r1_end = magis.end("r1", [%b], [%c]) : none
)");
}

// Both regions sum: only the outer one's sum is complete.
TEST(Addend, IsAddedOutsideAllThatSum) {
  const Graph graph = matrix_graph("aten.addmm(%bias, %a, %w)");
  FissionRegion outer = region_of(graph, {{"a", {1, 1}}, {"b", {1, 1}}}, 16, 8);
  outer.children = {region_of(graph, {{"a", {1, 1}}, {"b", {1, 1}}}, 8, 3)};
  EXPECT_EQ(body(split(graph, {outer})), R"(%b_sum = magis.begin("r1", 8, 16, []) : f32[8,4]
%b_sum_r2 = magis.begin("r2", 3, 1*r1, []) : f32[8,4]
%x_slice = magis.part(%x, 1, 1*r1) : f32[8,8]{16,1}/512
%x_slice_slice = magis.part(%x_slice, 1, 1*r2) : f32[8,3]{16,1}/512
%a = aten.relu(%x_slice_slice) : f32[8,3]
%w_slice = magis.part(%w, 0, 1*r1) : f32[8,4]/256
%w_slice_slice = magis.part(%w_slice, 0, 1*r2) : f32[3,4]/256
%b_written = magis.add_mm_part(%b_sum_r2, %a, %w_slice_slice) : none
%r2_end = magis.end("r2", [%b_sum_r2], []) : none
%b_written_2 = magis.add_part(%b_sum, %b_sum_r2) : none
%r1_end = magis.end("r1", [%b_sum], []) : none
%b = aten.add.Tensor(%b_sum, %bias) : f32[8,4]
)");
}

// Input channels: the bias goes to the channels of the sum.
TEST(Addend, AConvolutionsBiasFollowsItsChannels) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[2,6,5,5]
param %w "w" : f32[4,6,3,3]
param %bias "b" : f32[4]
%a = aten.relu(%x) : f32[2,6,5,5]
%b = aten.convolution(%a, %w, %bias, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[2,4,5,5]
output aux "" %b
)",
                                  "test");
  EXPECT_EQ(body(split(graph, {region_of(graph, {{"a", {1, 1}}, {"b", {1, 1}}}, 6, 2)})),
            R"(%b_sum = magis.begin("r1", 2, 6, []) : f32[2,4,5,5]
%x_slice = magis.part(%x, 1, 1*r1) : f32[2,2,5,5]{150,25,5,1}/1200
%a = aten.relu(%x_slice) : f32[2,2,5,5]
%w_slice = magis.part(%w, 1, 1*r1) : f32[4,2,3,3]{54,9,3,1}/864
%b_part = aten.convolution(%a, %w_slice, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[2,4,5,5]
%b_written = magis.add_part(%b_sum, %b_part) : none
%r1_end = magis.end("r1", [%b_sum], []) : none
%bias_unsqueezed = aten.unsqueeze(%bias, -1) : f32[4,1]
%bias_unsqueezed_2 = aten.unsqueeze(%bias_unsqueezed, -1) : f32[4,1,1]
%b = aten.add.Tensor(%b_sum, %bias_unsqueezed_2) : f32[2,4,5,5]
)");
}

// Rows are added to what is there: every part adds to zeros.
TEST(Addend, AddedRowsAreAddedToZeros) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %self "self" : f32[5,3]
batch %index "index" : i64[8]
batch %x "x" : f32[8,3]
%a = aten.relu(%x) : f32[8,3]
%b = aten.index_add(%self, 0, %index, %a) : f32[5,3]
output aux "" %b
)",
                                  "test");
  EXPECT_EQ(body(split(graph, {region_of(graph, {{"a", {0, 1}}, {"b", {1, 1}}}, 8, 4)})),
            R"(%b_sum = magis.begin("r1", 4, 8, []) : f32[5,3]
%x_slice = magis.part(%x, 0, 1*r1) : f32[4,3]/96
%a = aten.relu(%x_slice) : f32[4,3]
%self_zeros = aten.zeros_like(%self) : f32[5,3]
%index_slice = magis.part(%index, 0, 1*r1) : i64[4]/64
%b_part = aten.index_add(%self_zeros, 0, %index_slice, %a) : f32[5,3]
%b_written = magis.add_part(%b_sum, %b_part) : none
%r1_end = magis.end("r1", [%b_sum], []) : none
%b = aten.add.Tensor(%b_sum, %self) : f32[5,3]
)");
}

// %s[1] is the same in every part, and made there: it is not outside to be added.
TEST(Addend, WhatEveryPartMakesCannotBeAddedOnce) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %g "g" : f32[8,4]
batch %x "x" : f32[8,16]
param %w "w" : f32[4,16]
param %v "v" : f32[16,4]
%dx, %dw, %db = aten.linear_backward(%x, %g, %w, [true,true,true]) : f32[8,16], f32[4,16], f32[4]
%b = aten.addmm(%db, %dx, %v) : f32[8,4]
output aux "" %b
)",
                                  "test");
  const auto made =
      fission(graph, std::vector{region_of(graph, {{"dx", {1, 1}}, {"b", {1, 1}}}, 16, 4)});
  ASSERT_TRUE(std::holds_alternative<std::string>(made));
  EXPECT_EQ(std::get<std::string>(made), "%b = aten.addmm adds %db once, but every part makes it");
}

}  // namespace
}  // namespace magis
