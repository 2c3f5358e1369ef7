#include <gtest/gtest.h>

#include <set>
#include <string>

#include "analysis/analysis_support.h"
#include "magis/analysis/fission_tree.h"
#include "support/random.h"

namespace magis {
namespace {

using test::find_op;
using test::make_region;
using test::parse_body;
using test::Random;

const char* const kChain = R"(
batch %x "x" : f32[12,4]
%a = aten.tanh(%x) : f32[12,4]
%b = aten.relu(%a) : f32[12,4]
%c = aten.neg(%b) : f32[12,4]
%d = aten.exp(%c) : f32[12,4]
%e = aten.tanh(%d) : f32[12,4]
output aux "e" %e
)";

// Rows of a chain (12 of them) in regions {a..e} > {b c} and {a..e} > {d e} > {e}; columns (4 of
// them) in {c d}, which overlaps two of these.
class Mutations : public testing::Test {
 protected:
  Mutations() : graph(parse_body(kChain)), axes(graph) {
    const auto axis = [&](std::size_t dim) {
      return axes.signature(find_op(graph, "a"))->results[0][dim].axis;
    };
    const Labelling rows = grow(axes, find_op(graph, "a"), axis(0));
    const Labelling columns = grow(axes, find_op(graph, "a"), axis(1));
    tree = nest_regions(
        axes, {make_region(graph, rows, {"e"}, 12), make_region(graph, rows, {"d", "e"}, 12),
               make_region(graph, rows, {"b", "c"}, 12),
               make_region(graph, rows, {"a", "b", "c", "d", "e"}, 12),
               make_region(graph, columns, {"c", "d"}, 4)});
  }

  int node(std::string_view first, std::size_t count) const {
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      const FissionRegion& region = tree.nodes[n].region;
      if (region.operators.front() == find_op(graph, first) && region.operators.size() == count) {
        return static_cast<int>(n);
      }
    }
    ADD_FAILURE() << first;
    return -1;
  }
  std::string text(const FissionTree& t, PartChoice choice = PartChoice::divisors) const {
    std::string all;
    for (const Mutation& m : mutations(t, choice)) {
      const auto& region = t.nodes[static_cast<std::size_t>(m.node)].region;
      all += (all.empty() ? "" : ", ") + std::string(to_text(m.kind)) + " " +
             test::names(graph, region.operators);
    }
    return all;
  }
  static FissionTree step(const FissionTree& t, MutationKind kind, int node) {
    return apply(t, {kind, node}, PartChoice::divisors);
  }
  int64_t part(const FissionTree& t, int node) const {
    return t.nodes[static_cast<std::size_t>(node)].region.part;
  }

  Graph graph;
  AxisGraph axes;
  FissionTree tree;
};

TEST_F(Mutations, StartAtTheLeaves) {
  EXPECT_EQ(to_text(graph, tree),
            "n 1, part 12 of 12: %a .. %e, 5 operators\n"
            "  n 1, part 12 of 12: %b .. %c, 2 operators\n"
            "  n 1, part 4 of 4: %c .. %d, 2 operators\n"
            "  n 1, part 12 of 12: %d .. %e, 2 operators\n"
            "    n 1, part 12 of 12: %e .. %e, 1 operators\n");
  EXPECT_EQ(text(tree), "enable b c, enable c d, enable e");
}

TEST_F(Mutations, RunThroughTheDivisorsOfTwelve) {
  const int leaf = node("e", 1);
  FissionTree now = step(tree, MutationKind::enable, leaf);
  EXPECT_EQ(part(now, leaf), 6);
  std::string counts = "1 2";
  for (int i = 0; i < 4; ++i) {
    now = step(now, MutationKind::mutate, leaf);
    counts += " " + std::to_string(now.nodes[static_cast<std::size_t>(leaf)].region.part_count());
  }
  EXPECT_EQ(counts, "1 2 3 4 6 12");
  EXPECT_EQ(text(now).find("mutate e"), std::string::npos);
  for (const int64_t expected : {2, 3, 4, 6}) {
    now = step(now, MutationKind::mutate_back, leaf);
    EXPECT_EQ(part(now, leaf), expected);
  }
  EXPECT_EQ(text(now), "enable b c, enable c d, enable d e, lift e, disable e, mutate e");
}

TEST_F(Mutations, EnableLiftAndDisableAlongTheTree) {
  const int leaf = node("e", 1), middle = node("d", 2), top = node("a", 5);
  const FissionTree enabled = step(tree, MutationKind::enable, leaf);
  // Lifting moves the split to the parent; enabling the parent splits its parts further.
  const FissionTree lifted = step(enabled, MutationKind::lift, leaf);
  EXPECT_EQ(part(lifted, leaf), 6);  // all of a part of %d .. %e: not split
  EXPECT_FALSE(lifted.nodes[static_cast<std::size_t>(leaf)].enabled());
  EXPECT_EQ(part(lifted, middle), 6);
  // %c .. %d overlaps what is enabled now.
  EXPECT_EQ(text(lifted),
            "enable a b c d e, enable b c, lift d e, disable d e, mutate d e, enable e");
  const FissionTree both = step(lifted, MutationKind::enable, leaf);
  EXPECT_EQ(part(both, leaf), 3);
  // A node with enabled descendants is not disabled; one with enabled ancestors is not lifted.
  EXPECT_EQ(text(both), "enable a b c d e, enable b c, lift d e, mutate d e, disable e, mutate e");
  EXPECT_EQ(step(both, MutationKind::disable, leaf).nodes[0].region, tree.nodes[0].region);
  const FissionTree three = step(both, MutationKind::enable, top);
  EXPECT_EQ(part(three, top), 6);
  EXPECT_EQ(part(three, middle), 3);
  EXPECT_EQ(part(three, leaf), 1);  // two parts of 3 are uneven: three it is
  EXPECT_EQ(enabled_regions(three).size(), 1u);
}

TEST_F(Mutations, KeepTheNumberOfPartsOfWhatIsNested) {
  const int leaf = node("b", 2), top = node("a", 5);
  FissionTree now = step(step(tree, MutationKind::enable, leaf), MutationKind::mutate, leaf);
  EXPECT_EQ(part(now, leaf), 4);  // 3 parts of 12
  now = step(now, MutationKind::enable, top);
  EXPECT_EQ(part(now, top), 6);
  EXPECT_EQ(part(now, leaf), 2);  // 3 parts of 6
  EXPECT_EQ(why_invalid(axes, enabled_regions(now)), std::nullopt);
  // %c .. %d overlaps %b .. %c. Parts of 4 are
  // split in 4, as 3 do not divide them; parts of 3 cannot be.
  EXPECT_EQ(text(now), "mutate a b c d e, disable b c, mutate b c, mutate back b c, enable e");
  while (true) {
    const std::vector<Mutation> all = mutations(now, PartChoice::divisors);
    const Mutation next{MutationKind::mutate, top};
    if (std::ranges::find(all, next) == all.end()) break;
    now = apply(now, next, PartChoice::divisors);
  }
  EXPECT_EQ(part(now, top), 4);
  EXPECT_EQ(part(now, leaf), 1);
}

// All part lengths that a leaf over an axis of this length takes, one mutation after another.
std::string part_lengths(int64_t length, PartChoice choice) {
  const Graph graph =
      parse_body("batch %x \"x\" : f32[" + std::to_string(length) + "]\n%a = aten.tanh(%x) : f32[" +
                 std::to_string(length) + "]\noutput aux \"a\" %a\n");
  const AxisGraph axes(graph);
  FissionTree tree =
      nest_regions(axes, {make_region(graph, grow(axes, OpId(0), 0), {"a"}, length)});
  std::string text = std::to_string(length);
  for (Mutation next{MutationKind::enable, 0};; next.kind = MutationKind::mutate) {
    const std::vector<Mutation> all = mutations(tree, choice);
    if (std::ranges::find(all, next) == all.end()) return text;
    tree = apply(tree, next, choice);
    text += " " + std::to_string(tree.nodes[0].region.part);
  }
}

TEST(MutationParts, DivideTheLengthOrLeaveTheLastPartShorter) {
  EXPECT_EQ(part_lengths(12, PartChoice::divisors), "12 6 4 3 2 1");
  EXPECT_EQ(part_lengths(10, PartChoice::divisors), "10 5 2 1");
  EXPECT_EQ(part_lengths(10, PartChoice::uneven), "10 5 4 3 2 1");
  EXPECT_EQ(part_lengths(7, PartChoice::divisors), "7 1");
  EXPECT_EQ(part_lengths(7, PartChoice::uneven), "7 4 3 2 1");
}

// Whatever is done, in whatever order, the enabled regions are what can be split.
TEST_F(Mutations, LeadToValidRegionsOnly) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const PartChoice choice = seed % 2 == 0 ? PartChoice::divisors : PartChoice::uneven;
    FissionTree now = tree;
    std::size_t most = 0;
    for (int i = 0; i < 40; ++i) {
      const std::vector<Mutation> all = mutations(now, choice);
      ASSERT_FALSE(all.empty());
      const Mutation next = all[random.below(all.size())];
      now = apply(now, next, choice);
      const std::vector<FissionRegion> enabled = enabled_regions(now);
      ASSERT_EQ(why_invalid(axes, enabled), std::nullopt) << to_text(graph, now);
      for (const FissionRegion& region : enabled) most = std::max(most, region.children.size());
    }
    EXPECT_GT(most, 0u);
  }
}

}  // namespace
}  // namespace magis
