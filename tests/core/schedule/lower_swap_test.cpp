// Lowering of gaps: where stores, awaits and loads stand, and which gaps are no program.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "support/named_gaps.h"

namespace magis {
namespace {

using Gaps = std::vector<test::NamedGap>;
using Recomputed = std::vector<std::pair<std::string, std::string>>;  // reader, tensor

// The program's lines of what lower() makes; "none" if it makes nothing.
std::string lowered(const std::string& text, const Gaps& gaps, const Recomputed& recomputed = {}) {
  const Graph graph = parse_graph(text, "test");
  Decisions decisions = program_order(graph);
  test::add_gaps(graph, gaps, decisions);
  for (const auto& [reader, tensor] : recomputed) {
    decisions.modes[test::edge_named(graph, reader, tensor)] = Mode::recompute;
  }
  const auto program = lower(graph, decisions);
  if (!program) return "none";
  verify(graph, *program);
  const std::string plan = to_text(graph, *program);
  EXPECT_EQ(to_text(graph, parse_plan(plan, "again").program), plan);
  return plan.substr(plan.find("\nprogram\n") + 9);
}

// Matrix products never run in place.
const std::string kChain = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
%e = aten.mm(%d, %a) : f32[16,16]
output loss "" %e
)";

TEST(LowerSwap, StoresAsEarlyAndAwaitsAsLateAsCanBe) {
  EXPECT_EQ(lowered(kChain, {{"e", "a", "c", "d"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "load %a as .1\n"
            "run %d\n"
            "free %c, %b\n"
            "await %a.1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
}

// Two gaps in front of one operator: what leaves is let go first.
TEST(LowerSwap, ReleasesBeforeItLoads) {
  EXPECT_EQ(lowered(kChain, {{"d", "b", "d", "d"}, {"e", "a", "c", "d"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "store %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "await %b\n"
            "free %b\n"
            "load %b as .1\n"
            "load %a as .1\n"
            "await %b.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "await %a.1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
}

// %a is away before two of its uses.
const std::string kTwice = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %a) : f32[16,16]
%e = aten.mm(%d, %x) : f32[16,16]
%f = aten.mm(%e, %a) : f32[16,16]
output loss "" %f
)";

TEST(LowerSwap, OneStoreServesAllGapsOfATensor) {
  EXPECT_EQ(lowered(kTwice, {{"d", "a", "c", "d"}, {"f", "a", "e", "f"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %d reading %a.1\n"
            "free %c\n"
            "await %a.1\n"
            "free %a.1\n"
            "run %e\n"
            "free %d\n"
            "load %a as .2\n"
            "await %a.2\n"
            "run %f reading %a.2\n"
            "free %e, %a.2\n");
}

TEST(LowerSwap, ATensorThatIsBackServesARecomputation) {
  EXPECT_EQ(lowered(kChain, {{"e", "a", "c", "d"}}, {{"d", "b"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %b as .1 reading %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
}

// %b is made again while %a is away: from a copy of %a made for it alone.
TEST(LowerSwap, ARecomputationInTheGapMakesItsOwnCopy) {
  EXPECT_EQ(lowered(kChain, {{"e", "a", "c", "e"}}, {{"d", "b"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1\n"
            "free %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "load %a as .2\n"
            "await %a.2\n"
            "run %e reading %a.2\n"
            "free %d, %a.2\n");
}

TEST(LowerSwap, ARecomputedCopyIsStored) {
  EXPECT_EQ(lowered(kTwice, {{"f", "a", "e", "f"}}, {{"d", "a"}}),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "store %a.1\n"
            "run %d reading %a.1\n"
            "free %c\n"
            "await %a.1\n"
            "free %a.1\n"
            "run %e\n"
            "free %d\n"
            "load %a as .2\n"
            "await %a.2\n"
            "run %f reading %a.2\n"
            "free %e, %a.2\n");
}

// The first gap stores the original; the copy of the second is let go without being stored.
TEST(LowerSwap, ACopyOfWhatTheHostHasIsNotStoredAgain) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %a) : f32[16,16]
%d = aten.mm(%c, %a) : f32[16,16]
%e = aten.mm(%d, %x) : f32[16,16]
%f = aten.mm(%e, %a) : f32[16,16]
output loss "" %f
)";
  EXPECT_EQ(lowered(text, {{"c", "a", "c", "c"}, {"f", "a", "e", "f"}}, {{"d", "a"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %c reading %a.1\n"
            "free %b, %a.1\n"
            "run %a as .2\n"
            "run %d reading %a.2\n"
            "free %c\n"
            "await %a.2\n"
            "free %a.2\n"
            "run %e\n"
            "free %d\n"
            "load %a as .3\n"
            "await %a.3\n"
            "run %f reading %a.3\n"
            "free %e, %a.3\n");
}

TEST(LowerSwap, WhatIsOnItsWayIsNotOverwritten) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.relu(%a) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.add.Tensor(%a, %c) : f32[16,16]
output loss "" %d
)";
  EXPECT_EQ(lowered(text, {{"d", "a", "c", "d"}}),
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %d reading %a.1 over %a.1\n"
            "free %c\n");
}

// ---- loops

const std::string kLoop = R"(magis 1
device cpu
batch %x "x" : f32[8,4]
%m = aten.mm(%x, %x) : f32[8,4]
%k = aten.mm(%m, %x) : f32[8,4]
%r = magis.begin("r1", 2, 8, [%m]) : f32[8,4]
%mp = magis.part(%m, 0, 1*r1) : f32[2,4]/128
%a = aten.mm(%mp, %x) : f32[2,4]
%b = aten.mm(%a, %x) : f32[2,4]
%c = aten.mm(%b, %a) : f32[2,4]
%w = magis.write_part(%r, 0, 1*r1, %c) : none
%end = magis.end("r1", [%r], [%m]) : none
%u = aten.mm(%r, %x) : f32[8,4]
%v = aten.mm(%u, %r) : f32[8,4]
%z = aten.mm(%v, %k) : f32[8,4]
output aux "" %z
)";
const std::string kBody =
    "run %a\n"
    "run %b\n"
    "run %c\n"
    "free %b, %a\n"
    "run %w\n"
    "free %c\n";

TEST(LowerSwap, InsideABody) {
  EXPECT_EQ(lowered(kLoop, {{"c", "a", "c", "c"}}),
            "run %m\n"
            "run %k\n"
            "run %r\n"
            "run %a\n"
            "store %a\n"
            "run %b\n"
            "await %a\n"
            "free %a\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %c reading %a.1\n"
            "free %b, %a.1\n"
            "run %w\n"
            "free %c\n"
            "run %end\n"
            "free %m\n"
            "run %u\n"
            "run %v\n"
            "free %u, %r\n"
            "run %z\n"
            "free %v, %k\n");
}

TEST(LowerSwap, AroundALoop) {
  EXPECT_EQ(lowered(kLoop, {{"z", "k", "r", "u"}}),
            "run %m\n"
            "run %k\n"
            "store %k\n"
            "await %k\n"
            "free %k\n"
            "run %r\n" +
                kBody +
                "run %end\n"
                "free %m\n"
                "load %k as .1\n"
                "run %u\n"
                "run %v\n"
                "free %u, %r\n"
                "await %k.1\n"
                "run %z reading %k.1\n"
                "free %v, %k.1\n");
}

TEST(LowerSwap, ALoopReadsWhatIsBackBeforeItBegins) {
  EXPECT_EQ(lowered(kLoop, {{"r", "m", "r", "r"}}),
            "run %m\n"
            "store %m\n"
            "run %k\n"
            "await %m\n"
            "free %m\n"
            "load %m as .1\n"
            "await %m.1\n"
            "run %r reading %m.1\n"
            "run %a reading %m.1\n"
            "run %b\n"
            "run %c\n"
            "free %b, %a\n"
            "run %w\n"
            "free %c\n"
            "run %end reading %m.1\n"
            "free %m.1\n"
            "run %u\n"
            "run %v\n"
            "free %u, %r\n"
            "run %z\n"
            "free %v, %k\n");
}

TEST(LowerSwap, ALoopsResultIsStoredWhereTheLoopEnds) {
  EXPECT_EQ(lowered(kLoop, {{"v", "r", "v", "v"}}),
            "run %m\n"
            "run %k\n"
            "run %r\n" +
                kBody +
                "run %end\n"
                "free %m\n"
                "store %r\n"
                "run %u\n"
                "await %r\n"
                "free %r\n"
                "load %r as .1\n"
                "await %r.1\n"
                "run %v reading %r.1\n"
                "free %u, %r.1\n"
                "run %z\n"
                "free %v, %k\n");
}

// ---- no program

TEST(LowerSwap, RefusesGapsInAnotherBodyThanTheTensors) {
  EXPECT_EQ(lowered(kLoop, {{"a", "m", "a", "a"}}), "none");      // every iteration reads it
  EXPECT_EQ(lowered(kLoop, {{"end", "m", "w", "w"}}), "none");    // so it is there to the end
  EXPECT_EQ(lowered(kLoop, {{"z", "k", "a", "z"}}), "none");      // would leave once an iteration
  EXPECT_EQ(lowered(kLoop, {{"z", "k", "r", "w"}}), "none");      // would come once an iteration
  EXPECT_EQ(lowered(kLoop, {{"z", "k", "end", "end"}}), "none");  // in front of it: in the body
  EXPECT_EQ(lowered(kLoop, {{"end", "r", "w", "w"}}), "none");    // not complete yet
}

TEST(LowerSwap, RefusesGapsThatDoNotLieBetweenUses) {
  EXPECT_NE(lowered(kTwice, {{"d", "a", "c", "c"}}), "none");
  EXPECT_EQ(lowered(kTwice, {{"d", "a", "b", "c"}}), "none");  // before the use before
  EXPECT_EQ(lowered(kTwice, {{"d", "a", "d", "c"}}), "none");  // back before it leaves
  EXPECT_EQ(lowered(kTwice, {{"d", "a", "c", "e"}}), "none");  // back after its use
  EXPECT_EQ(lowered(kTwice, {{"b", "a", "a", "b"}}), "none");  // before it is made
  EXPECT_EQ(lowered(kTwice, {{"f", "a", "d", "e"}}), "none");  // away while it is read
}

TEST(LowerSwap, RefusesWhatStaysOnTheDevice) {
  EXPECT_EQ(lowered(kChain, {{"c", "x", "b", "b"}}), "none");
  const std::string outputs = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%x, %x) : f32[16,16]
%c = aten.mm(%b, %a) : f32[16,16]
output aux "" %a
output loss "" %c
)";
  EXPECT_EQ(lowered(outputs, {{"c", "a", "b", "c"}}), "none");
}

// In front of %c, %a could leave if its bytes in storage order were all that it is.
TEST(LowerSwap, RefusesWhatDoesNotFillItsStorage) {
  const auto with = [](const std::string& type) {
    return lowered(
        "magis 1\ndevice cpu\nbatch %x \"x\" : f32[16,16]\n%a = aten.mm(%x, %x) : " + type +
            "\n%b = aten.mm(%a, %x) : f32[16,16]\n"
            "%c = aten.mm(%b, %a) : f32[16,16]\noutput loss \"\" %c\n",
        {{"c", "a", "c", "c"}});
  };
  EXPECT_NE(with("f32[16,16]"), "none");
  EXPECT_NE(with("f32[16,16]{1,16}"), "none");
  EXPECT_NE(with("f32[16,1]{1,64}"), "none");   // no element is far away
  EXPECT_EQ(with("f32[16,16]{17,1}"), "none");  // holes
  EXPECT_EQ(with("f32[16,16]{0,1}"), "none");   // elements there twice
  EXPECT_EQ(with("f32[16,16]+4"), "none");      // begins later
  EXPECT_EQ(with("f32[16,16]/2048"), "none");   // ends earlier
  EXPECT_EQ(with("f32[16,0]"), "none");         // nothing to move
}

TEST(LowerSwap, RefusesGapsThatDoNotBelongToUses) {
  const Graph graph = parse_graph(kTwice, "test");
  Decisions decisions = program_order(graph);
  test::add_gaps(graph, {{"d", "a", "c", "d"}, {"f", "a", "e", "f"}}, decisions);
  ASSERT_TRUE(lower(graph, decisions));

  Decisions without_mode = decisions;
  without_mode.modes[decisions.gaps[1].use] = Mode::keep;
  EXPECT_FALSE(lower(graph, without_mode));

  Decisions without_gap = decisions;
  without_gap.gaps.pop_back();
  EXPECT_FALSE(lower(graph, without_gap));

  Decisions twice = decisions;
  twice.gaps.insert(twice.gaps.begin(), decisions.gaps[0]);
  EXPECT_FALSE(lower(graph, twice));

  Decisions unsorted = decisions;
  std::swap(unsorted.gaps[0], unsorted.gaps[1]);
  EXPECT_FALSE(lower(graph, unsorted));
}

}  // namespace
}  // namespace magis
