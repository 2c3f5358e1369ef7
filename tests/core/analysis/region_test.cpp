#include "magis/analysis/region.h"

#include <gtest/gtest.h>

#include <string>

#include "analysis/analysis_support.h"

namespace magis {
namespace {

using test::find_op;
using test::make_region;
using test::parse_body;

// What is wrong with the region of the named operators under the labelling grown from dimension
// `dim` of the result of `seed`; "" if nothing is.
struct Case {
  explicit Case(const std::string& body) : graph(parse_body(body)), axes(graph) {}

  Labelling grow_at(std::string_view seed, std::size_t dim, int64_t step = 1) const {
    const OpId op = find_op(graph, seed);
    return grow(axes, op, axes.signature(op)->results[0][dim].axis, step);
  }
  std::string check(const FissionRegion& region) const {
    return why_invalid(axes, region).value_or("");
  }
  std::string check(const Labelling& labelling, std::initializer_list<std::string_view> operators,
                    int64_t part = 1) const {
    return check(make_region(graph, labelling, operators, part));
  }

  Graph graph;
  AxisGraph axes;
};

const char* const kChain = R"(
site @1 "net.act" "net.py:7"
batch %x "x" : f32[4,6]
param %w "w" : f32[6,6]
%a = aten.relu(%x) : f32[4,6] @1
%b = aten.mm(%a, %w) : f32[4,6]
%c = aten._softmax(%b, 1, false) : f32[4,6]
%d = aten.add.Tensor(%c, %a) : f32[4,6]
%e = aten.sum.dim_IntList(%d, [0]) : f32[6]
%f = aten.add.Tensor(%d, %e) : f32[4,6]
output aux "f" %f
)";

TEST(Region, IsValidWhenEveryReadContinuesTheAxis) {
  const Case chain(kChain);
  const Labelling rows = chain.grow_at("a", 0);
  EXPECT_EQ(chain.check(rows, {"a", "b", "c", "d", "e"}), "");
  EXPECT_EQ(chain.check(rows, {"a", "b", "c", "d", "e"}, 4), "");
  EXPECT_EQ(chain.check(rows, {"b", "c"}, 3), "");
  EXPECT_EQ(chain.check(rows, {"e"}), "");
}

TEST(Region, IsRefusedForItsNumbers) {
  const Case chain(kChain);
  const Labelling rows = chain.grow_at("a", 0);
  EXPECT_EQ(chain.check(rows, {}), "a region needs at least one operator");
  EXPECT_EQ(chain.check(rows, {"a"}, 0), "a part of 0 is not between 1 and the axis length 4");
  EXPECT_EQ(chain.check(rows, {"a"}, 5), "a part of 5 is not between 1 and the axis length 4");
  FissionRegion region = make_region(chain.graph, rows, {"a", "b"});
  region.length = 3;
  EXPECT_EQ(chain.check(region),
            "%a (aten.relu in net.act at net.py:7) cannot walk its axis of length 4 in 3 steps of "
            "1");
  region.labels.pop_back();
  EXPECT_EQ(chain.check(region), "a region of 2 operators has 1 labels");
  region = make_region(chain.graph, rows, {"a", "b"});
  std::swap(region.operators[0], region.operators[1]);
  EXPECT_EQ(chain.check(region), "the operators of a region are not in program order");
  region.operators = {find_op(chain.graph, "c")};
  region.labels = {{chain.axes.signature(region.operators[0])->results[0][1].axis, 1}};
  region.length = 6;
  EXPECT_EQ(chain.check(region), "%c (aten._softmax) needs its axis of length 6 whole");
  region.labels = {{7, 1}};
  EXPECT_EQ(chain.check(region), "%c (aten._softmax) has no axis 7");
}

TEST(Region, IsRefusedWhenItWouldLeaveAndReenter) {
  const Case chain(kChain);
  EXPECT_EQ(chain.check(chain.grow_at("a", 0), {"a", "c", "d"}),
            "the region would leave through %b (aten.mm) and re-enter at %c (aten._softmax)");
}

TEST(Region, IsRefusedWhenItFallsApart) {
  const Case chain(R"(
batch %x "x" : f32[4,6]
%a = aten.relu(%x) : f32[4,6]
%b = aten.tanh(%x) : f32[4,6]
%c = aten.add.Tensor(%a, %b) : f32[4,6]
output aux "c" %c
)");
  const Labelling rows = chain.grow_at("a", 0);
  EXPECT_EQ(chain.check(rows, {"a", "b"}),
            "the region falls apart: nothing in it connects %a (aten.relu) and %b (aten.tanh)");
  EXPECT_EQ(chain.check(rows, {"a", "b", "c"}), "");
}

TEST(Region, IsRefusedWhenItReadsAPartialResult) {
  const Case chain(kChain);
  EXPECT_EQ(chain.check(chain.grow_at("a", 0), {"d", "e", "f"}),
            "%f (aten.add.Tensor) reads %e (aten.sum.dim_IntList), which is complete only after "
            "the last part: it cannot be in the same region");
}

// Similarities of all pairs, as in a contrastive loss: rows against all rows.
const char* const kContrastive = R"(
batch %x "x" : f32[4,6]
%a = aten.tanh(%x) : f32[4,6]
%at = aten.permute(%a, [1, 0]) : f32[6,4]{1,6}
%s = aten.mm(%a, %at) : f32[4,4]
%p = aten._softmax(%s, 1, false) : f32[4,4]
output aux "p" %p
)";

TEST(Region, IsRefusedWhereTheAxisMeetsItself) {
  const Case contrastive(kContrastive);
  const Labelling batch = contrastive.grow_at("a", 0);
  EXPECT_EQ(to_text(contrastive.axes, batch), "length 4\n%a axis 0\n");
  ASSERT_EQ(batch.obstacles.size(), 1u);
  EXPECT_EQ(to_text(contrastive.axes, batch.obstacles[0]),
            "%s (aten.mm) meets the axis twice: along its axes of lengths 4 and 4");
  // The rows alone can be split: %a is then read whole, from outside.
  const Labelling rows = contrastive.grow_at("s", 0);
  EXPECT_EQ(contrastive.check(rows, {"s", "p"}, 2), "");
  FissionRegion region = make_region(contrastive.graph, rows, {"s", "p"});
  region.operators.insert(region.operators.begin(), find_op(contrastive.graph, "a"));
  region.labels.insert(region.labels.begin(), batch.labels[find_op(contrastive.graph, "a")]);
  EXPECT_EQ(contrastive.check(region),
            "%s (aten.mm) reads all of %a (aten.tanh), which the region slices: it cannot be in "
            "the same region");
}

TEST(Region, IsRefusedWhenTwoOperatorsWalkDifferentAxes) {
  const Case chain(R"(
batch %x "x" : f32[4,4]
%a = aten.tanh(%x) : f32[4,4]
%b = aten.relu(%a) : f32[4,4]
output aux "b" %b
)");
  FissionRegion region = make_region(chain.graph, chain.grow_at("a", 0), {"a", "b"});
  region.labels[1] = chain.grow_at("b", 1).labels[find_op(chain.graph, "b")];
  EXPECT_EQ(chain.check(region),
            "%b (aten.relu) and %a (aten.tanh) walk different axes of %a: they cannot be in the "
            "same region");
}

TEST(Region, IsRefusedOnAnAxisOfLengthOne) {
  const Case chain(R"(
batch %x "x" : f32[1,4]
%a = aten.tanh(%x) : f32[1,4]
output aux "a" %a
)");
  FissionRegion region;
  region.operators = {find_op(chain.graph, "a")};
  region.labels = {{chain.axes.signature(region.operators[0])->results[0][0].axis, 1}};
  region.length = region.part = 1;
  EXPECT_EQ(chain.check(region), "an axis of length 1 cannot be split");
}

TEST(Region, IsRefusedWithOperatorsThatCannotBeSplit) {
  const Case chain(R"(
batch %x "x" : f32[4,4]
buffer %m "m" : f32[4,4]
%a = magis.bernoulli([4, 4], [4, 1], 0.5) : f32[4,4]
%b = aten.no_such_operator(%x) : f32[4,4]
%c = aten.mul.Tensor(%a, %b) : f32[4,4]
%d = aten.copy_(%m, %c) : none
output aux "c" %c
)");
  const auto check = [&](std::string_view name) {
    FissionRegion region;
    region.operators = {find_op(chain.graph, name)};
    region.labels = {{0, 1}};
    region.length = region.part = 4;
    return chain.check(region);
  };
  EXPECT_EQ(check("a"), "%a (magis.bernoulli) draws random numbers: it cannot be split");
  EXPECT_EQ(check("b"), "%b (aten.no_such_operator) is not known to fission: it cannot be split");
  EXPECT_EQ(check("d"), "%d (aten.copy_) writes to an input: it cannot be split");
  EXPECT_EQ(check("c"), "");
}

TEST(Region, TellsWhichModuleStandsInTheWay) {
  const Case net(R"(
site @1 "attention.softmax" "net.py:12"
batch %x "x" : f32[4,8]
%a = aten.relu(%x) : f32[4,8]
%y = aten._softmax(%a, 0, false) : f32[4,8] @1
%z = aten.relu(%y) : f32[4,8]
%q = aten.no_such_operator(%a) : f32[4,8]
output aux "z" %z
output aux "q" %q
)");
  const Labelling batch = net.grow_at("a", 0);
  ASSERT_EQ(batch.obstacles.size(), 2u);
  EXPECT_EQ(to_text(net.axes, batch.obstacles[0]),
            "%y (aten._softmax in attention.softmax at net.py:12) needs the whole axis of length 4 "
            "at once");
  EXPECT_EQ(to_text(net.axes, batch.obstacles[1]),
            "%q (aten.no_such_operator) is not known to fission: it is never split");
  // The other axis goes through.
  EXPECT_EQ(net.check(net.grow_at("a", 1), {"a", "y", "z"}, 2), "");
}

TEST(Region, NamesTheBatchNormThatStandsInTheWay) {
  const Case net(R"(
site @1 "features.bn" "net.py:12"
batch %x "x" : f32[4,8,5,5]
param %w "bn.weight" : f32[8]
param %b "bn.bias" : f32[8]
buffer %mean "bn.running_mean" : f32[8]
buffer %var "bn.running_var" : f32[8]
%a = aten.relu(%x) : f32[4,8,5,5]
%y, %m, %v, %rm, %rv = aten._native_batch_norm_legit_functional(%a, %w, %b, %mean, %var, true, 0.1, 1e-05) : f32[4,8,5,5], f32[8], f32[8], f32[8], f32[8] @1
%z = aten.relu(%y) : f32[4,8,5,5]
output aux "z" %z
output buffer "bn.running_mean" %rm
output buffer "bn.running_var" %rv
)");
  const Labelling batch = net.grow_at("a", 0);
  ASSERT_EQ(batch.obstacles.size(), 1u);
  EXPECT_EQ(to_text(net.axes, batch.obstacles[0]),
            "%y (aten._native_batch_norm_legit_functional in features.bn at net.py:12) needs the "
            "whole axis of length 4 at once");
  // Channels go through.
  EXPECT_EQ(net.check(net.grow_at("a", 1), {"a", "y", "z"}, 2), "");
}

TEST(Region, NestsOnItsOwnAxisAndOnAnother) {
  const Case chain(R"(
batch %x "x" : f32[8,6]
%a = aten.tanh(%x) : f32[8,6]
%b = aten.relu(%a) : f32[8,6]
%c = aten.neg(%b) : f32[8,6]
%d = aten.exp(%c) : f32[8,6]
output aux "d" %d
)");
  const Labelling rows = chain.grow_at("a", 0);
  const Labelling columns = chain.grow_at("a", 1);
  FissionRegion region = make_region(chain.graph, rows, {"a", "b", "c", "d"}, 4);
  region.children = {make_region(chain.graph, rows, {"a", "b"}, 2),
                     make_region(chain.graph, columns, {"c", "d"}, 3)};
  EXPECT_EQ(chain.check(region),
            "the child region at %a (aten.tanh) splits a part of 4 but says that its length is 8");
  region.children[0].length = 4;
  EXPECT_EQ(chain.check(region), "");
  // A third level on the first axis again, below the second one.
  region.children[1].children = {make_region(chain.graph, rows, {"c"}, 1)};
  EXPECT_EQ(chain.check(region),
            "the child region at %c (aten.neg) splits a part of 4 but says that its length is 8");
  region.children[1].children[0].length = 4;
  EXPECT_EQ(chain.check(region), "");
  EXPECT_EQ(to_text(chain.graph, region),
            "fission part 4 of 8 {\n"
            "  %a axis 0\n  %b axis 0\n  %c axis 0\n  %d axis 0\n"
            "  fission part 2 of 4 {\n    %a axis 0\n    %b axis 0\n  }\n"
            "  fission part 3 of 6 {\n    %c axis 1\n    %d axis 1\n"
            "    fission part 1 of 4 {\n      %c axis 0\n    }\n  }\n}\n");
}

TEST(Region, RefusesChildrenThatDoNotFit) {
  const Case chain(R"(
batch %x "x" : f32[8,6]
%a = aten.tanh(%x) : f32[8,6]
%b = aten.relu(%a) : f32[8,6]
%c = aten.neg(%b) : f32[8,6]
output aux "c" %c
)");
  const Labelling rows = chain.grow_at("a", 0);
  const Labelling columns = chain.grow_at("a", 1);
  FissionRegion region = make_region(chain.graph, rows, {"a", "b"}, 4);
  region.children = {make_region(chain.graph, columns, {"b", "c"}, 3)};
  EXPECT_EQ(chain.check(region), "%c (aten.neg) is in a child of the region but not in the region");
  region.children = {make_region(chain.graph, columns, {"a", "b"}, 3),
                     make_region(chain.graph, columns, {"b"}, 2)};
  EXPECT_EQ(chain.check(region), "%b (aten.relu) is in two regions side by side");
  region.children.pop_back();
  region.children[0].labels[1] = region.labels[1];
  EXPECT_EQ(chain.check(region),
            "%b (aten.relu) is split along one axis by a region and its child, in other steps or "
            "unlike the child's other operators");
}

TEST(Region, RefusesRegionsThatWaitForEachOther) {
  const Case two(R"(
batch %x "x" : f32[4,6]
batch %y "y" : f32[4,6]
%a1 = aten.tanh(%x) : f32[4,6]
%b1 = aten.tanh(%y) : f32[4,6]
%b2 = aten.mul.Tensor(%a1, %y) : f32[4,6]
%a2 = aten.mul.Tensor(%b1, %x) : f32[4,6]
%a3 = aten.add.Tensor(%a1, %a2) : f32[4,6]
%b3 = aten.add.Tensor(%b1, %b2) : f32[4,6]
output aux "a" %a3
output aux "b" %b3
)");
  const Labelling rows = two.grow_at("a1", 0);
  // Each is convex, but a2 needs b1 and b2 needs a1.
  const std::vector<FissionRegion> regions = {make_region(two.graph, rows, {"a1", "a2", "a3"}, 2),
                                              make_region(two.graph, rows, {"b1", "b2", "b3"}, 2)};
  EXPECT_EQ(two.check(regions[0]), "");
  EXPECT_EQ(two.check(regions[1]), "");
  EXPECT_EQ(why_invalid(two.axes, regions).value_or(""),
            "regions wait for each other: no order runs each as a whole; they begin with %a1 "
            "(aten.tanh) and %b1 (aten.tanh)");
}

}  // namespace
}  // namespace magis
