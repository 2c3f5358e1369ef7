#include "magis/analysis/structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "magis/graph/text.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

Graph parse(const std::string& body) {
  return parse_graph("magis 1\ndevice cpu\n\nbatch %x \"x\" : f32[4,4]\n\n" + body, "graph");
}

TEST(Structure, TellsOperatorsApartByNameArgumentsAndSurroundings) {
  const Graph graph = parse(
      "%a = aten.mm(%x, %x) : f32[4,4]\n"
      "%b = aten.mm(%x, %x) : f32[4,4]\n"
      "%c = aten.relu(%a) : f32[4,4]\n"
      "%d = aten.relu(%b) : f32[4,4]\n"
      "%e = aten.mul.Scalar(%c, 2.0) : f32[4,4]\n"
      "%f = aten.mul.Scalar(%d, 3.0) : f32[4,4]\n"
      "output aux \"e\" %e\noutput aux \"f\" %f\n");
  const auto near = structure_hashes(graph, 0);
  EXPECT_EQ(near[OpId(0)], near[OpId(1)]);
  EXPECT_EQ(near[OpId(2)], near[OpId(3)]);
  EXPECT_NE(near[OpId(0)], near[OpId(2)]);  // mm and relu
  EXPECT_NE(near[OpId(4)], near[OpId(5)]);  // 2.0 and 3.0
  const auto wide = structure_hashes(graph, 1);
  EXPECT_EQ(wide[OpId(0)], wide[OpId(1)]);
  EXPECT_NE(wide[OpId(2)], wide[OpId(3)]);  // one step from what differs
  EXPECT_NE(structure_hashes(graph, 2)[OpId(0)], structure_hashes(graph, 2)[OpId(1)]);
}

TEST(Structure, TellsReadingsApart) {
  const Graph graph = parse(
      "%a = aten.relu(%x) : f32[4,4]\n"
      "%t = aten.permute(%a, [1, 0]) : f32[4,4]{1,4}\n"
      "%b = aten.mm(%a, %x) : f32[4,4]\n"
      "%c = aten.mm(%t, %x) : f32[4,4]\n"
      "output aux \"b\" %b\noutput aux \"c\" %c\n");
  const auto hashes = structure_hashes(graph, 0);
  EXPECT_NE(hashes[OpId(1)], hashes[OpId(2)]);
}

TEST(Structure, FindsTheRepeatedLayersOfATransformer) {
  constexpr int kLayers = 8;
  constexpr int kRadius = 3;
  const Graph graph = parse_graph(test::transformer_graph_text({.layers = kLayers}), "transformer");
  // gelu -> the second linear of the same layer: one edge a layer. The first and last layers may
  // differ by what lies within the radius.
  std::map<std::size_t, int> sizes;
  for (const auto& group : equal_edges(graph, kRadius)) {
    EXPECT_TRUE(std::ranges::is_sorted(group));
    const EdgeId edge = group[0];
    const OpId producer = graph.tensor(graph.edge_tensor(edge)).producer;
    if (graph.op(producer).info->name == "aten.gelu" &&
        graph.op(graph.edge_op(edge)).info->name == "aten.addmm") {
      ++sizes[group.size()];
    }
  }
  ASSERT_FALSE(sizes.empty());
  EXPECT_GE(sizes.rbegin()->first, static_cast<std::size_t>(kLayers - 2));
  EXPECT_LE(sizes.rbegin()->first, static_cast<std::size_t>(kLayers));
}

}  // namespace
}  // namespace magis
