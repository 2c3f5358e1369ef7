#include "magis/analysis/fission_tree.h"

#include <gtest/gtest.h>

#include <string>

#include "analysis/analysis_support.h"

namespace magis {
namespace {

using test::find_op;
using test::make_region;
using test::names;
using test::parse_body;

// All tensors that operators make are live at the peak, except the named ones.
Hotspots all_but(const Graph& graph, std::initializer_list<std::string_view> cold) {
  Hotspots hotspots(graph.tensors().size(), 0);
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensor(TensorId(t));
    if (!tensor.is_input) hotspots[TensorId(t)] = tensor.bytes;
  }
  for (const std::string_view name : cold) {
    hotspots[graph.makes(find_op(graph, name))[0]] = 0;
  }
  return hotspots;
}

// Part of an MLP's training graph (the paper's Fig. 5) with a batch of 4.
TEST(FissionTree, SplitsTheTrainingOfAnMlpAlongTheBatch) {
  const Graph graph = parse_body(R"(
batch %v0 "v0" : f32[4,6]
param %v1 "v1" : f32[6,6]
batch %v2 "v2" : f32[4,6]
%v3 = aten.relu(%v0) : f32[4,6]
%v4 = aten.mm(%v3, %v1) : f32[4,6]
%v5 = aten.mul.Tensor(%v4, %v2) : f32[4,6]
%v6 = aten.tanh(%v4) : f32[4,6]
%v1t = aten.permute(%v1, [1, 0]) : f32[6,6]{1,6}
%v7 = aten.mm(%v5, %v1t) : f32[4,6]
%v3t = aten.permute(%v3, [1, 0]) : f32[6,4]{1,6}
%v8 = aten.mm(%v3t, %v5) : f32[6,6]
output aux "v6" %v6
output aux "v7" %v7
output grad "v1" %v8
)");
  const AxisGraph axes(graph);
  const Labelling batch = grow_from_input(axes, graph.reads(find_op(graph, "v3"))[0], 0);
  const FissionRegion region = make_region(graph, batch, {"v3", "v4", "v5", "v6", "v7", "v8"}, 2);
  EXPECT_EQ(why_invalid(axes, region), std::nullopt);
  EXPECT_EQ(region.part_count(), 2);

  // What each operand from outside and each result of the region becomes.
  std::string roles;
  for (const OpId op : region.operators) {
    const AxisSignature& signature = *axes.signature(op);
    const int axis = batch.labels[op].axis;
    for (const OperandRead& read : axes.reads(op)) {
      if (read.producer.valid()) continue;
      const auto& dims = signature.operands[static_cast<std::size_t>(read.operand)];
      const bool sliced =
          std::ranges::any_of(dims, [&](const DimAxis& d) { return d.axis == axis; });
      roles +=
          graph.value(graph.tensor(read.tensor).value).name + (sliced ? " sliced\n" : " shared\n");
    }
    if (!graph.tensor(graph.makes(op)[0]).is_output) continue;
    const Dependence dependence = signature.dependence[0][static_cast<std::size_t>(axis)];
    roles += names(graph, {op}) + (dependence == Dependence::sliced ? " concatenated\n"
                                   : dependence == Dependence::sum  ? " summed\n"
                                                                    : " other\n");
  }
  EXPECT_EQ(roles,
            "v0 sliced\nv1 shared\nv2 sliced\nv6 concatenated\nv1 shared\nv7 concatenated\n"
            "v8 summed\n");
}

// A graph like the paper's Fig. 6; every tensor is of the same size, and all are live at the peak
// but %v3 and the mask. Half the number of live tensors dominated, less the cold inputs:
//   root  19/2 - mask        = 8.5   S0, level 5 of 5: 8.5 <= score
//   v1    18/2 - mask        = 8.0   level 4: 6.8 <= score < 8.5, but it dominates v2
//   v2    17/2 - mask        = 7.5   S2, level 4
//   v3     9/2 - v3          = 3.5   S3, level 2: 3.4 <= score < 5.1
//   v4     4/2               = 2.0   S4, level 1: 1.7 <= score < 3.4
//   v10    6/2 - mask        = 2.0   S10, level 1
//   b1     5/2 - mask        = 1.5   none; all others are lower
const char* const kFigure6 = R"(
batch %x "x" : f32[8]
param %w "w" : f32[8]
%mask = aten.relu(%w) : f32[8]
%v1 = aten.relu(%x) : f32[8]
%v2 = aten.relu(%v1) : f32[8]
%v3 = aten.relu(%v2) : f32[8]
%v4 = aten.relu(%v3) : f32[8]
%v5 = aten.relu(%v4) : f32[8]
%v6 = aten.relu(%v5) : f32[8]
%v7 = aten.relu(%v6) : f32[8]
%v8 = aten.relu(%v7) : f32[8]
%v9 = aten.tanh(%v3) : f32[8]
%v11 = aten.tanh(%v9) : f32[8]
%v12 = aten.tanh(%v11) : f32[8]
%j1 = aten.add.Tensor(%v8, %v12) : f32[8]
%v10 = aten.tanh(%v2) : f32[8]
%b1 = aten.tanh(%v10) : f32[8]
%b2 = aten.tanh(%b1) : f32[8]
%b3 = aten.tanh(%b2) : f32[8]
%b4 = aten.tanh(%b3) : f32[8]
%b5 = aten.tanh(%b4) : f32[8]
%b6 = aten.mul.Tensor(%b5, %mask) : f32[8]
%j0 = aten.add.Tensor(%j1, %b6) : f32[8]
output aux "j0" %j0
)";

TEST(FissionTree, NestsCandidatesByScore) {
  const Graph graph = parse_body(kFigure6);
  const AxisGraph axes(graph);
  const Hotspots hotspots = all_but(graph, {"v3", "mask"});

  const std::vector<Labelling> labellings = find_labellings(axes, hotspots, 10);
  ASSERT_EQ(labellings.size(), 1u);
  const DominatorTree dominators = dominator_tree(axes, labellings[0], hotspots);
  const DominatorScores scores = score_dominators(axes, dominators, hotspots);
  const auto twice_score = [&](std::string_view name) {
    const int node = name == "root" ? 0 : dominators.node(find_op(graph, name));
    return scores.twice_score(node) / 32;  // bytes of one tensor
  };
  EXPECT_EQ(twice_score("root"), 17);
  EXPECT_EQ(twice_score("v1"), 16);
  EXPECT_EQ(twice_score("v2"), 15);
  EXPECT_EQ(twice_score("v3"), 7);
  EXPECT_EQ(twice_score("v4"), 4);
  EXPECT_EQ(twice_score("v10"), 4);
  EXPECT_EQ(twice_score("b1"), 3);
  EXPECT_EQ(twice_score("b5"), -1);
  EXPECT_EQ(twice_score("j0"), 0);

  const FissionTree tree = make_fission_tree(axes, hotspots, {.levels = 5});
  EXPECT_EQ(to_text(graph, tree),
            "n 1, part 8 of 8: %v1 .. %j0, 20 operators\n"
            "  n 1, part 8 of 8: %v3 .. %j0, 18 operators\n"
            "    n 1, part 8 of 8: %v4 .. %j1, 9 operators\n"
            "      n 1, part 8 of 8: %v5 .. %v8, 4 operators\n"
            "    n 1, part 8 of 8: %b1 .. %b6, 6 operators\n");
  EXPECT_EQ(names(graph, tree.nodes[2].region.operators), "v4 v5 v6 v7 v8 v9 v11 v12 j1");
}

TEST(FissionTree, IsEmptyWhereNothingWouldBeSaved) {
  const Graph graph = parse_body(kFigure6);
  const AxisGraph axes(graph);
  const Hotspots none(graph.tensors().size(), 0);
  EXPECT_TRUE(make_fission_tree(axes, none).nodes.empty());
}

// The paper drops what a chosen operator dominates if it is no valid region; we repair it.
TEST(FissionTree, RepairsWhatIsNotValid) {
  // %s sums over the axis and is read again: what follows cannot be in the same region.
  const Graph graph = parse_body(R"(
batch %x "x" : f32[8,1]
%a = aten.relu(%x) : f32[8,1]
%b = aten.tanh(%a) : f32[8,1]
%c = aten.exp(%b) : f32[8,1]
%s = aten.sum.dim_IntList(%c, [0]) : f32[1]
%d = aten.mul.Tensor(%c, %s) : f32[8,1]
output aux "d" %d
)");
  const AxisGraph axes(graph);
  const Hotspots hotspots = all_but(graph, {"s"});
  EXPECT_TRUE(make_fission_tree(axes, hotspots, {.levels = 1, .repair = false}).nodes.empty());
  EXPECT_EQ(to_text(graph, make_fission_tree(axes, hotspots, {.levels = 1})),
            "n 1, part 8 of 8: %a .. %s, 4 operators\n");
}

TEST(FissionTree, KeepsEnabledRegions) {
  const Graph graph = parse_body(kFigure6);
  const AxisGraph axes(graph);
  const Hotspots hotspots = all_but(graph, {"v3", "mask"});
  const Labelling batch = find_labellings(axes, hotspots, 1)[0];
  FissionRegion outer = make_region(graph, batch, {"v10", "b1", "b2", "b3", "b4"}, 4);
  outer.children = {make_region(graph, batch, {"b2", "b3"}, 2)};
  outer.children[0].length = 4;
  ASSERT_EQ(why_invalid(axes, outer), std::nullopt);
  const FissionTree tree = make_fission_tree(axes, hotspots, {.levels = 5}, std::span(&outer, 1));
  EXPECT_EQ(enabled_regions(tree), std::vector<FissionRegion>{outer});
  EXPECT_EQ(tree.nodes.size(), 7u);
}

}  // namespace
}  // namespace magis
