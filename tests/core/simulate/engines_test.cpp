// Three engines side by side, in seconds that can be added up by hand.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "magis/simulate/simulate.h"
#include "support/named_gaps.h"

namespace magis {
namespace {

using Times = std::map<std::string, Seconds>;
using Intervals = std::vector<std::pair<Seconds, Seconds>>;

struct Timed {
  Seconds seconds = 0;
  Seconds exposed = 0;
  Intervals runs;
  Intervals copies;
};

// `runs`: seconds of each operator, in all iterations together; `copies`: of each tensor, one way.
// What is not named takes no time.
Timed timed(const std::string& text, const Times& runs, const Times& copies, bool overlap = true) {
  const PlanText plan = parse_plan(text, "test");
  verify(plan.graph, plan.program);
  CostTable costs = make_cost_table(plan.graph, device_profile("reference"));
  for (std::size_t i = 0; i < costs.seconds.size(); ++i) costs.seconds[OpId(i)] = 0;
  for (std::size_t t = 0; t < costs.copy_seconds.size(); ++t) costs.copy_seconds[TensorId(t)] = 0;
  for (const auto& [name, seconds] : runs) {
    costs.seconds[test::op_named(plan.graph, name)] = seconds;
  }
  for (const auto& [name, seconds] : copies) {
    const OpId maker = test::op_named(plan.graph, name);
    costs.copy_seconds[plan.graph.makes(maker)[0]] = seconds;
  }
  costs.copies_overlap = overlap;
  const Simulation simulation = simulate(plan.graph, plan.program, costs);
  const Footprint fast = footprint(plan.graph, plan.program, costs);
  EXPECT_EQ(fast.seconds, simulation.seconds);
  EXPECT_EQ(fast.exposed, simulation.exposed);
  Timed found{simulation.seconds, simulation.exposed, {}, {}};
  for (const TimelinePoint& p : simulation.timeline) found.runs.emplace_back(p.start, p.end);
  for (const CopyPoint& p : simulation.copies) found.copies.emplace_back(p.start, p.end);
  return found;
}

const std::string kChain = R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%a = aten.mm(%x, %x) : f32[8,8]
%b = aten.mm(%a, %x) : f32[8,8]
%c = aten.mm(%b, %x) : f32[8,8]
%d = aten.mm(%c, %b) : f32[8,8]
%e = aten.mm(%d, %a) : f32[8,8]
output loss "" %e
program
)";
const Times kRuns = {{"a", 1}, {"b", 4}, {"c", 4}, {"d", 2}, {"e", 1}};

TEST(Engines, HiddenCopiesTakeNoTime) {
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nrun %b\nawait %a\nfree %a\nload %a as .1\n"
                                "run %c\nrun %d\nfree %b, %c\nawait %a.1\nrun %e reading %a.1\n",
                            kRuns, {{"a", 3}});
  EXPECT_EQ(found.copies, (Intervals{{1, 4}, {5, 8}}));
  EXPECT_EQ(found.runs, (Intervals{{0, 1}, {1, 5}, {5, 9}, {9, 11}, {11, 12}}));
  EXPECT_EQ(found.seconds, 12);
  EXPECT_EQ(found.exposed, 0);
}

TEST(Engines, AnAwaitExposesWhatIsNotThrough) {
  // The store takes 2 seconds longer than %b; the load is asked for one second before its use.
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nrun %b\nawait %a\nfree %a\nrun %c\n"
                                "load %a as .1\nrun %d\nfree %b, %c\nawait %a.1\n"
                                "run %e reading %a.1\n",
                            kRuns, {{"a", 6}});
  EXPECT_EQ(found.copies, (Intervals{{1, 7}, {11, 17}}));
  EXPECT_EQ(found.runs, (Intervals{{0, 1}, {1, 5}, {7, 11}, {11, 13}, {17, 18}}));
  EXPECT_EQ(found.seconds, 18);
  EXPECT_EQ(found.exposed, 2 + 4);
}

TEST(Engines, CopiesOfOneDirectionGoOneAfterTheOther) {
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nrun %b\nstore %b\nawait %a\nfree %a\nrun %c\n"
                                "await %b\nfree %b\nload %b as .1\nload %a as .1\nawait %b.1\n"
                                "run %d reading %b.1\nfree %c, %b.1\nawait %a.1\n"
                                "run %e reading %a.1\n",
                            kRuns, {{"a", 5}, {"b", 1}});
  // %b is made at 5, when %a is still on its way; %a is back 5 seconds after %b.
  EXPECT_EQ(found.copies, (Intervals{{1, 6}, {6, 7}, {10, 11}, {11, 16}}));
  EXPECT_EQ(found.runs, (Intervals{{0, 1}, {1, 5}, {6, 10}, {11, 13}, {16, 17}}));
  EXPECT_EQ(found.exposed, 1 + 1 + 3);
}

TEST(Engines, DirectionsDoNotDelayEachOther) {
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nrun %b\nawait %a\nfree %a\nstore %b\n"
                                "load %a as .1\nrun %c\nawait %b\nawait %a.1\nrun %d\n"
                                "run %e reading %a.1\n",
                            kRuns, {{"a", 3}, {"b", 6}});
  EXPECT_EQ(found.copies, (Intervals{{1, 4}, {5, 11}, {5, 8}}));
  EXPECT_EQ(found.exposed, 2);
}

TEST(Engines, ALoadWaitsForItsStore) {
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nload %a as .1\nrun %b\nawait %a\nfree %a\n"
                                "run %c\nrun %d\nawait %a.1\nrun %e reading %a.1\n",
                            kRuns, {{"a", 3}});
  EXPECT_EQ(found.copies, (Intervals{{1, 4}, {4, 7}}));
  EXPECT_EQ(found.exposed, 0);
}

TEST(Engines, AnAwaitWaitsForTheCopiesThatItNames) {
  const std::string program =
      "run %a\nstore %a\nload %a as .1\nload %a as .2\nrun %b\nrun %c\nAWAIT\nrun %d\n"
      "await %a, %a.1, %a.2\nrun %e reading %a.2\n";
  const auto with = [&](const std::string& await) {
    std::string text = kChain + program;
    return timed(text.replace(text.find("AWAIT"), 5, await), kRuns, {{"a", 4}});
  };
  // Stored at 5, back at 9 and at 13; %c ends at 9.
  EXPECT_EQ(with("await %a").runs[3].first, 9);
  EXPECT_EQ(with("await %a.1").runs[3].first, 9);
  EXPECT_EQ(with("await %a.2").runs[3].first, 13);
  EXPECT_EQ(with("await %a, %a.2").exposed, 4);
  EXPECT_EQ(with("await %a").exposed, 2);  // %d ends at 11
}

TEST(Engines, WithoutOverlapEveryCopyIsWaitedFor) {
  const Timed found = timed(kChain +
                                "run %a\nstore %a\nrun %b\nawait %a\nfree %a\nload %a as .1\n"
                                "run %c\nrun %d\nfree %b, %c\nawait %a.1\nrun %e reading %a.1\n",
                            kRuns, {{"a", 3}}, false);
  EXPECT_EQ(found.copies, (Intervals{{1, 4}, {8, 11}}));
  EXPECT_EQ(found.runs, (Intervals{{0, 1}, {4, 8}, {11, 15}, {15, 17}, {17, 18}}));
  EXPECT_EQ(found.seconds, 12 + 6);
  EXPECT_EQ(found.exposed, 6);
}

// ---- loops

// An iteration computes for 6 seconds, and waits for a load of one.
std::string loop_text(int part) {
  const std::string n = std::to_string(part);
  return R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%m = aten.mm(%x, %x) : f32[8,8]
%r = magis.begin("r1", )" +
         n +
         R"(, 8, []) : f32[8,8]
%xp = magis.part(%x, 0, 1*r1) : f32[)" +
         n +
         R"(,8]/256
%p = aten.mm(%xp, %x) : f32[)" +
         n + R"(,8]
%q = aten.mm(%p, %x) : f32[)" +
         n + R"(,8]
%s = aten.mm(%q, %p) : f32[)" +
         n + R"(,8]
%w = magis.write_part(%r, 0, 1*r1, %s) : none
%end = magis.end("r1", [%r], []) : none
%z = aten.mm(%r, %m) : f32[8,8]
output loss "" %z
program
run %m
STORE
run %r
run %p
store %p
run %q
await %p
free %p
load %p as .1
await %p.1
run %s reading %p.1
free %q, %p.1
run %w
free %s
run %end
LOAD
)";
}

Timed loop_timed(int iterations, bool swap_m = false, bool overlap = true) {
  std::string text = loop_text(8 / iterations);
  const auto say = [&](const std::string& word, const std::string& what) {
    text.replace(text.find(word), word.size() + 1, what);
  };
  say("STORE", swap_m ? "store %m\n" : "");
  say("LOAD",
      swap_m ? "await %m\nfree %m\nload %m as .1\nawait %m.1\nrun %z reading %m.1\n" : "run %z\n");
  const double n = iterations;
  return timed(text, {{"m", 1}, {"p", 2 * n}, {"q", 3 * n}, {"s", 1 * n}, {"z", 1}},
               {{"m", 10}, {"p", 1}}, overlap);
}

TEST(Engines, EveryIterationTakesItsTime) {
  for (const int n : {1, 2, 4, 8}) {
    const Timed found = loop_timed(n);
    EXPECT_EQ(found.seconds, 1 + 7 * n + 1) << n;
    EXPECT_EQ(found.exposed, n) << n;
    // The first iteration's.
    EXPECT_EQ(found.copies, (Intervals{{3, 4}, {6, 7}})) << n;
    EXPECT_EQ(found.runs.size(), 8u);
    EXPECT_EQ(found.runs[2], (std::pair<Seconds, Seconds>{1, 3})) << n;
    EXPECT_EQ(found.runs.back(), (std::pair<Seconds, Seconds>{1 + 7.0 * n, 2 + 7.0 * n})) << n;
  }
}

TEST(Engines, WithoutOverlapEveryIterationWaits) {
  for (const int n : {1, 2, 8}) {
    const Timed found = loop_timed(n, false, false);
    EXPECT_EQ(found.seconds, 1 + 8 * n + 1) << n;
    EXPECT_EQ(found.exposed, 2 * n) << n;
  }
}

// The store of %m, from 1 to 11, delays that of the first %p to 12.
TEST(Engines, OnlyTheFirstIterationFindsAnEngineTaken) {
  for (const int n : {1, 2, 8}) {
    const Timed found = loop_timed(n, true);
    EXPECT_EQ(found.copies[0], (std::pair<Seconds, Seconds>{1, 11}));
    EXPECT_EQ(found.copies[1], (std::pair<Seconds, Seconds>{11, 12}));
    EXPECT_EQ(found.copies[2], (std::pair<Seconds, Seconds>{12, 13}));
    const double end = 14 + 7 * (n - 1);
    EXPECT_EQ(found.copies[3], (std::pair<Seconds, Seconds>{end, end + 10})) << n;
    EXPECT_EQ(found.seconds, end + 10 + 1) << n;
    EXPECT_EQ(found.exposed, 6 + 1 + (n - 1) + 10) << n;
  }
}

// The inner loop of 2 in each of 2 outer iterations waits a second; the outer one does not.
TEST(Engines, LoopsInLoops) {
  const Timed found = timed(R"(magis 1
device cpu
batch %x "x" : f32[8,8]
%r = magis.begin("r1", 4, 8, []) : f32[8,8]
%xp = magis.part(%x, 0, 1*r1) : f32[4,8]/256
%k = aten.mm(%xp, %x) : f32[4,8]
%i = magis.begin("r2", 2, 1*r1, []) : f32[4,8]
%xq = magis.part(%xp, 0, 1*r2) : f32[2,8]/256
%p = aten.mm(%xq, %x) : f32[2,8]
%q = aten.mm(%xq, %p) : f32[2,8]
%v = magis.write_part(%i, 0, 1*r2, %q) : none
%end2 = magis.end("r2", [%i], []) : none
%s = aten.mm(%i, %k) : f32[4,8]
%w = magis.write_part(%r, 0, 1*r1, %s) : none
%end1 = magis.end("r1", [%r], []) : none
output loss "" %r
program
run %r
run %k
store %k
run %i
run %p
store %p
await %p
free %p
load %p as .1
await %p.1
run %q reading %p.1
free %p.1
run %v
free %q
run %end2
await %k
free %k
load %k as .1
await %k.1
run %s reading %k.1
free %i, %k.1
run %w
free %s
run %end1
)",
                            {{"k", 2}, {"p", 4}, {"q", 8}, {"s", 2}}, {{"k", 1}, {"p", 0.5}});
  // Outer iteration: %k 1; inner: %p 1, copies 0.5 + 0.5, %q 2, twice; %k back 1; %s 1. The first
  // store of %p finds the engine free when %k's is through, at the end of %p.
  EXPECT_EQ(found.copies, (Intervals{{1, 2}, {2, 2.5}, {2.5, 3}, {9, 10}}));
  EXPECT_EQ(found.seconds, 2 * (1 + 2 * 4 + 1 + 1));
  EXPECT_EQ(found.exposed, 2 * (2 * 1 + 1));
}

}  // namespace
}  // namespace magis
