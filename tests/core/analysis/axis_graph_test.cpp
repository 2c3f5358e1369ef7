#include "magis/analysis/axis_graph.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "analysis/analysis_support.h"

namespace magis {
namespace {

using test::find_op;
using test::names;
using test::parse_body;

// Self-attention with a residual (the paper's Fig. 4), N = 2, T = 6, C = 10, H = 4, h = 5. Each
// matrix product is a broadcast product and a sum over it (%q_, then %q), so that heads stay an
// axis of their own: flattened into bmm's batch they would not.
const char* const kAttention = R"(
batch %input "x" : f32[2,6,10]
param %w1 "w1" : f32[4,1,10,5]
param %w2 "w2" : f32[4,1,10,5]
param %w3 "w3" : f32[4,1,10,5]
param %w4 "w4" : f32[4,1,5,10]
%x = aten.relu(%input) : f32[2,6,10]
%xh = aten.unsqueeze(%x, 1) : f32[2,1,6,10]
%xe = aten.unsqueeze(%xh, 4) : f32[2,1,6,10,1]
%q_ = aten.mul.Tensor(%xe, %w1) : f32[2,4,6,10,5]
%q = aten.sum.dim_IntList(%q_, [3]) : f32[2,4,6,5]
%k_ = aten.mul.Tensor(%xe, %w2) : f32[2,4,6,10,5]
%k = aten.sum.dim_IntList(%k_, [3]) : f32[2,4,6,5]
%v_ = aten.mul.Tensor(%xe, %w3) : f32[2,4,6,10,5]
%v = aten.sum.dim_IntList(%v_, [3]) : f32[2,4,6,5]
%qe = aten.unsqueeze(%q, 3) : f32[2,4,6,1,5]
%ke = aten.unsqueeze(%k, 2) : f32[2,4,1,6,5]
%s_ = aten.mul.Tensor(%qe, %ke) : f32[2,4,6,6,5]
%s = aten.sum.dim_IntList(%s_, [4]) : f32[2,4,6,6]
%p = aten._softmax(%s, 3, false) : f32[2,4,6,6]
%pe = aten.unsqueeze(%p, 4) : f32[2,4,6,6,1]
%ve = aten.unsqueeze(%v, 2) : f32[2,4,1,6,5]
%o_ = aten.mul.Tensor(%pe, %ve) : f32[2,4,6,6,5]
%o = aten.sum.dim_IntList(%o_, [3]) : f32[2,4,6,5]
%oe = aten.unsqueeze(%o, 4) : f32[2,4,6,5,1]
%y_ = aten.mul.Tensor(%oe, %w4) : f32[2,4,6,5,10]
%y = aten.sum.dim_IntList(%y_, [1, 3]) : f32[2,6,10]
%z = aten.add.Tensor(%y, %x) : f32[2,6,10]
output aux "z" %z
)";

// "q:0 s:2,3": operators with an axis in the component of (op, axis), and those axes' lengths.
std::string members(const AxisGraph& axes, std::string_view op, int axis) {
  const int component = axes.component(find_op(axes.graph(), op), axis);
  std::string text;
  for (std::size_t o = 0; o < axes.graph().op_count(); ++o) {
    const AxisSignature* signature = axes.signature(OpId(o));
    int count = 0;
    for (std::size_t a = 0; a < signature->axes.size(); ++a) {
      if (axes.component(OpId(o), static_cast<int>(a)) == component) ++count;
    }
    if (count == 0) continue;
    text += (text.empty() ? "" : " ") + names(axes.graph(), {OpId(o)});
    if (count > 1) text += "*" + std::to_string(count);
  }
  return text;
}

// The axis of `op` that walks dimension `dim` of its result.
int axis_of(const AxisGraph& axes, std::string_view op, std::size_t dim) {
  return axes.signature(find_op(axes.graph(), op))->results[0][dim].axis;
}

Labelling grow_at(const AxisGraph& axes, std::string_view op, std::size_t dim, int64_t step = 1) {
  return grow(axes, find_op(axes.graph(), op), axis_of(axes, op, dim), step);
}

TEST(AxisGraph, FindsTheComponentsOfSelfAttention) {
  const Graph graph = parse_body(kAttention);
  const AxisGraph axes(graph);
  // Batch: all but the weights, which are inputs here.
  EXPECT_EQ(members(axes, "x", axis_of(axes, "x", 0)), "x q_ q k_ k v_ v s_ s p o_ o y_ y z");
  // Heads: all but x and z; y sums them.
  EXPECT_EQ(members(axes, "q", axis_of(axes, "q", 1)), "q_ q k_ k v_ v s_ s p o_ o y_ y");
  // Sequence: both axes of s and p; one of them is summed by o.
  EXPECT_EQ(members(axes, "x", axis_of(axes, "x", 1)),
            "x q_ q k_ k v_ v s_*2 s*2 p*2 o_*2 o*2 y_ y z");
}

TEST(AxisGraph, LabelsOneAxisPerOperator) {
  const Graph graph = parse_body(kAttention);
  const AxisGraph axes(graph);
  EXPECT_EQ(names(graph, grow_at(axes, "x", 0).operators), "x q_ q k_ k v_ v s_ s p o_ o y_ y z");
  EXPECT_EQ(names(graph, grow_at(axes, "q", 1).operators), "q_ q k_ k v_ v s_ s p o_ o y_ y");
  // Query rows: keys and values stem from the same sequence, but they are shared.
  const Labelling rows = grow_at(axes, "s", 2);
  EXPECT_EQ(names(graph, rows.operators), "x q_ q k_ v_ s_ s p o_ o y_ y z");
  ASSERT_EQ(rows.obstacles.size(), 2u);
  EXPECT_EQ(to_text(axes, rows.obstacles[0]),
            "%k (aten.sum.dim_IntList) and %s_ (aten.mul.Tensor) cannot be split together: one "
            "needs all parts of the other");
  EXPECT_EQ(names(graph, {rows.obstacles[1].op}), "v");
}

TEST(AxisGraph, FollowsViewsThroughLeadingFactorsOnly) {
  const Graph graph = parse_body(R"(
batch %input "x" : f32[4,6,10]
param %w "w" : f32[10,10]
%x = aten.relu(%input) : f32[4,6,10]
%rows = aten.view(%x, [24,10]) : f32[24,10]
%y = aten.mm(%rows, %w) : f32[24,10]
%z = aten.tanh(%y) : f32[24,10]
output aux "z" %z
)");
  const AxisGraph axes(graph);
  // The batch axis is rows in steps of 6; rows one by one reach no further than the operators that
  // walk them, nor do the 6 of the middle.
  EXPECT_EQ(to_text(axes, grow_at(axes, "x", 0)),
            "length 4\n%x axis 0\n%y axis 0 step 6\n%z axis 0 step 6\n");
  EXPECT_EQ(to_text(axes, grow_at(axes, "z", 0)), "length 24\n%y axis 0\n%z axis 0\n");
  EXPECT_EQ(to_text(axes, grow_at(axes, "z", 0, 6)), to_text(axes, grow_at(axes, "x", 0)));
  EXPECT_EQ(to_text(axes, grow_from_input(axes, graph.reads(find_op(graph, "x"))[0], 0)),
            to_text(axes, grow_at(axes, "x", 0)));
  EXPECT_EQ(to_text(axes, grow_at(axes, "x", 1)), "length 6\n%x axis 1\n");
  // Channels are summed by the product.
  EXPECT_EQ(names(graph, grow_at(axes, "x", 2).operators), "x y");
}

}  // namespace
}  // namespace magis
