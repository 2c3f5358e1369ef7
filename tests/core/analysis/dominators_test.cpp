#include "magis/analysis/dominators.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "analysis/analysis_support.h"
#include "support/random.h"

namespace magis {
namespace {

using test::find_op;
using test::names;
using test::parse_body;
using test::Random;

TEST(Dominators, OfADiamondWithASourceThatTheRootDoesNotReach) {
  const Graph graph = parse_body(R"(
batch %x "x" : f32[8]
param %w "w" : f32[8]
%a = aten.relu(%x) : f32[8]
%m = aten.neg(%w) : f32[8]
%b = aten.tanh(%a) : f32[8]
%c = aten.exp(%a) : f32[8]
%d = aten.add.Tensor(%b, %c) : f32[8]
%e = aten.mul.Tensor(%d, %m) : f32[8]
output aux "e" %e
)");
  std::vector<OpId> all;
  for (std::size_t o = 0; o < graph.op_count(); ++o) all.emplace_back(o);
  const std::vector<OpId> entries = {find_op(graph, "a")};
  const DominatorTree tree(graph, all, entries);
  EXPECT_EQ(tree.size(), 6);
  EXPECT_EQ(tree.node(find_op(graph, "m")), -1);
  const auto parent = [&](std::string_view name) {
    const OpId op = tree.op(tree.parent(tree.node(find_op(graph, name))));
    return op.valid() ? names(graph, {op}) : "root";
  };
  EXPECT_EQ(parent("a"), "root");
  EXPECT_EQ(parent("b"), "a");
  EXPECT_EQ(parent("d"), "a");
  EXPECT_EQ(parent("e"), "d");  // %m does not break it
  EXPECT_EQ(names(graph, tree.dominated(0)), "a b c d e");
  EXPECT_EQ(names(graph, tree.dominated(tree.node(find_op(graph, "a")))), "b c d e");
  EXPECT_EQ(tree.common_dominator(tree.node(find_op(graph, "b")), tree.node(find_op(graph, "e"))),
            tree.node(find_op(graph, "a")));
}

// Operators that the entries reach without passing through `without`.
std::set<OpId> reachable(const Graph& graph, const std::vector<OpId>& entries, OpId without) {
  std::set<OpId> reached;
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const OpId op(o);
    if (op == without) continue;
    bool reach = std::ranges::find(entries, op) != entries.end();
    for (const OpId before : graph.predecessors(op)) reach |= reached.contains(before);
    if (reach) reached.insert(op);
  }
  return reached;
}

TEST(Dominators, AgreeWithRemovingOperatorsOneByOne) {
  int deep = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const uint64_t count = 6 + random.below(30);
    std::string body = "batch %x \"x\" : f32[8]\n";
    for (uint64_t o = 0; o < count; ++o) {
      // Mostly chains, with some long ways back.
      const auto earlier = [&] {
        if (o == 0 || random.below(12) == 0) return std::string("%x");
        const uint64_t back =
            random.below(4) == 0 ? random.below(o) : random.below(std::min<uint64_t>(o, 2));
        return "%v" + std::to_string(o - 1 - back);
      };
      body += "%v" + std::to_string(o) + " = aten.add.Tensor(" + earlier() + ", " + earlier() +
              ") : f32[8]\n";
    }
    for (uint64_t o = 0; o < count; ++o) {
      body += "output aux \"" + std::to_string(o) + "\" %v" + std::to_string(o) + "\n";
    }
    const Graph graph = parse_body(body);
    std::vector<OpId> all;
    std::vector<OpId> entries;
    for (std::size_t o = 0; o < count; ++o) {
      all.emplace_back(o);
      if (graph.predecessors(OpId(o)).empty() && (o == 0 || random.below(2) == 0)) {
        entries.emplace_back(o);
      }
    }
    const DominatorTree tree(graph, all, entries);
    const std::set<OpId> reached = reachable(graph, entries, OpId());
    for (const OpId v : all) {
      ASSERT_EQ(tree.node(v) >= 0, reached.contains(v)) << "seed " << seed;
      if (!reached.contains(v)) continue;
      const std::set<OpId> without = reachable(graph, entries, v);
      std::vector<OpId> dominated;
      for (const OpId u : reached) {
        const bool expected = !without.contains(u);
        ASSERT_EQ(tree.dominates(tree.node(v), tree.node(u)), expected)
            << "seed " << seed << ": " << names(graph, {v}) << " and " << names(graph, {u});
        if (expected && u != v) dominated.push_back(u);
      }
      ASSERT_EQ(tree.dominated(tree.node(v)), dominated) << "seed " << seed;
      if (dominated.size() > 3) ++deep;
    }
  }
  EXPECT_GT(deep, 100);
}

}  // namespace
}  // namespace magis
