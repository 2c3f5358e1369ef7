// Programs without some of their recomputations and swaps.
#include "magis/schedule/undo.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "magis/graph/text.h"
#include "magis/schedule/decisions.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

Undone undone(const Graph& graph, uint8_t value) {
  return {IdMap<OpId, uint8_t>(graph.op_count(), value),
          IdMap<TensorId, uint8_t>(graph.tensors().size(), value)};
}

// A random graph of 40 operators with random decisions, and its program.
struct Case {
  Graph graph;
  Decisions decisions;
  Program program;
};
Case random_case(uint64_t seed) {
  Graph graph = test::make_random_graph(seed, 40);
  test::Random random(seed);
  Decisions decisions = test::random_decisions(graph, random, 30);
  test::add_random_gaps(graph, random, 20, decisions);
  Program program = lower(graph, decisions).value();
  return {std::move(graph), std::move(decisions), std::move(program)};
}

int count(const Program& program, Statement::Kind kind) {
  int found = 0;
  for (const Statement& s : program.statements) found += s.kind == kind;
  return found;
}

TEST(Undo, NothingLeavesTheProgramAsItIs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed);
    EXPECT_EQ(to_text(c.graph, undo(c.graph, c.program, undone(c.graph, 0))),
              to_text(c.graph, c.program))
        << "seed " << seed;
  }
}

TEST(Undo, EverythingLeavesTheOrderAlone) {
  int copies = 0;
  int loads = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed);
    Decisions kept = program_order(c.graph);
    kept.order = c.decisions.order;
    EXPECT_EQ(to_text(c.graph, undo(c.graph, c.program, undone(c.graph, 1))),
              to_text(c.graph, lower(c.graph, kept).value()))
        << "seed " << seed;
    copies += count(c.program, Statement::Kind::run) - static_cast<int>(c.graph.op_count());
    loads += count(c.program, Statement::Kind::load);
  }
  EXPECT_GT(copies, 500);
  EXPECT_GT(loads, 300);
}

TEST(Undo, AnyPartOfThemLeavesAValidProgram) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed);
    test::Random random(seed + 1000);
    Undone some = undone(c.graph, 0);
    for (uint8_t& run : some.runs) run = random.below(2) == 0;
    for (uint8_t& swap : some.swaps) swap = random.below(2) == 0;
    const Program program = undo(c.graph, c.program, some);
    EXPECT_NO_THROW(verify(c.graph, program)) << "seed " << seed;
    for (const Statement& s : program.statements) {
      const bool again = s.kind == Statement::Kind::run && s.copy > 0;
      const bool loads = s.kind == Statement::Kind::load;
      EXPECT_FALSE(again && some.runs[s.op]) << "seed " << seed;
      EXPECT_FALSE(loads && some.swaps[s.copies.front().tensor]) << "seed " << seed;
    }
    EXPECT_EQ(to_text(c.graph, parse_plan(to_text(c.graph, program), "again").program),
              to_text(c.graph, program));
  }
}

// %a runs a second time, and that copy leaves for the host: without the second run, the first
// result does.
TEST(Undo, WhatWasACopyOfACopy) {
  const std::string graph = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %a) : f32[16,16]
%d = aten.mm(%c, %x) : f32[16,16]
%e = aten.mm(%d, %a) : f32[16,16]
output loss "" %e
)";
  const PlanText plan = parse_plan(graph + R"(program
run %a
run %b
free %a
run %a as .1
store %a.1
run %c reading %a.1
free %b
await %a.1
free %a.1
run %d
free %c
load %a as .2
await %a.2
run %e reading %a.2
free %d, %a.2
)",
                                   "test");
  verify(plan.graph, plan.program);
  const auto program_without = [&](bool runs, bool swaps) {
    Undone what = undone(plan.graph, 0);
    if (runs) what.runs[OpId(0)] = 1;
    if (swaps) {
      for (uint8_t& swap : what.swaps) swap = 1;
    }
    const Program program = undo(plan.graph, plan.program, what);
    verify(plan.graph, program);
    const std::string text = to_text(plan.graph, program);
    return text.substr(text.find("\nprogram\n") + 9);
  };
  EXPECT_EQ(program_without(true, false),
            "run %a\n"
            "run %b\n"
            "store %a\n"
            "run %c\n"
            "free %b\n"
            "await %a\n"
            "free %a\n"
            "run %d\n"
            "free %c\n"
            "load %a as .1\n"
            "await %a.1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
  EXPECT_EQ(program_without(false, true),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %a as .1\n"
            "run %c reading %a.1\n"
            "free %b\n"
            "run %d\n"
            "free %c\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
  EXPECT_EQ(program_without(true, true),
            "run %a\n"
            "run %b\n"
            "run %c\n"
            "free %b\n"
            "run %d\n"
            "free %c\n"
            "run %e\n"
            "free %d, %a\n");
}

}  // namespace
}  // namespace magis
