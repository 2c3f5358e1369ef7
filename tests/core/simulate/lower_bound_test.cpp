#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "magis/graph/text.h"
#include "magis/simulate/simulate.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

struct Bound {
  Bytes bytes;
  std::string op;  // first result of the operator whose working set it is
};

Bound bound_of(const std::string& text) {
  const Graph graph = parse_graph("magis 1\ndevice cpu\n" + text, "test");
  const LowerBound bound = lower_bound(graph, make_cost_table(graph, device_profile("reference")));
  return {bound.bytes, bound.op.valid() ? graph.name(bound.op) : "outputs"};
}

TEST(LowerBound, IsTheLargestWorkingSet) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.mm(%a, %x) : f32[200] scratch 8
%c = aten.mm(%b, %x) : f32[50]
output loss "" %c
)");
  // persistent 40; %a 400 + %b 800 + scratch 8
  EXPECT_EQ(bound.bytes, 40 + 400 + 800 + 8);
  EXPECT_EQ(bound.op, "b");
}

// What a matrix's exponential takes depends on its norm; of an unknown operator nothing is known.
TEST(LowerBound, CountsNoScratchThatOnlySomeRunsTake) {
  for (const std::string op : {"aten.linalg_matrix_exp", "users.operator"}) {
    const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[10,10]
%b = )" + op + R"((%a) : f32[10,10] scratch 5000
output loss "" %b
)");
    EXPECT_EQ(bound.bytes, 40 + 400 + 400) << op;
  }
}

TEST(LowerBound, CountsAnOverwrittenOperandOnce) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.relu(%a) : f32[100]
%c = aten.mm(%b, %x) : f32[50]
output loss "" %c
)");
  EXPECT_EQ(bound.bytes, 40 + 400 + 200);
  EXPECT_EQ(bound.op, "c");
}

TEST(LowerBound, AnOutputIsNotOverwritten) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.relu(%a) : f32[100] scratch 1000
%c = aten.sum(%b) : f32[]
output loss "" %c
output aux "0" %a
)");
  EXPECT_EQ(bound.bytes, 40 + 400 + 400 + 1000);
  EXPECT_EQ(bound.op, "b");
}

TEST(LowerBound, OutputsMadeBeforeAreHeld) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.mm(%a, %x) : f32[50]
%c = aten.mm(%b, %x) : f32[70]
output loss "" %c
output aux "0" %a
)");
  EXPECT_EQ(bound.bytes, 40 + 400 + 200 + 280);
  EXPECT_EQ(bound.op, "c");
}

// %mask is read by %c again, and cannot be drawn again.
TEST(LowerBound, WhatIsNeededLaterIsNotOverwritten) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%mask = magis.bernoulli([100], [1], 0.9, dtype=torch.float32) : f32[100]
%b = aten.relu(%mask) : f32[100] scratch 1000
%c = aten.mm(%b, %mask) : f32[]
output loss "" %c
)");
  EXPECT_EQ(bound.bytes, 40 + 400 + 400 + 1000);
  EXPECT_EQ(bound.op, "b");
}

TEST(LowerBound, MayBeTheOutputsAlone) {
  const Bound bound = bound_of(R"(batch %x "x" : f32[10]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.mm(%x, %x) : f32[100]
output loss "" %a
output aux "0" %b
)");
  EXPECT_EQ(bound.bytes, 40 + 800);
  EXPECT_EQ(bound.op, "outputs");
}

// Whatever the order, the mask is drawn before %b and read after %c, and cannot be drawn again.
TEST(LowerBound, CountsWhatCannotBeRecomputedAndIsNeededLater) {
  const std::string text = R"(batch %x "x" : f32[10]
%mask = magis.bernoulli([300], [1], 0.9, dtype=torch.float32) : f32[300]
%a = aten.mm(%x, %mask) : f32[10]
%b = aten.mm(%a, %x) : f32[500]
%c = aten.mm(%b, %x) : f32[500]
%d = aten.mm(%c, %mask) : f32[10]
output loss "" %d
)";
  const Bound bound = bound_of(text);
  EXPECT_EQ(bound.bytes, 40 + 1200 + 2000 + 2000);
  EXPECT_EQ(bound.op, "c");
  // A pure tensor in its place can be made again.
  std::string pure = text;
  pure.replace(pure.find("magis.bernoulli([300], [1], 0.9, dtype=torch.float32)"), 53,
               "aten.mm(%x, %x)");
  EXPECT_EQ(bound_of(pure).bytes, 40 + 2000 + 2000);
}

// The smallest peak over every order, with every tensor kept and under random modes.
class BestPeak {
 public:
  BestPeak(const Graph& graph, const CostTable& costs, uint64_t seed)
      : graph_(graph), costs_(costs), random_(seed), placed_(graph.op_count(), false) {}

  Bytes find() {
    extend();
    return best_;
  }

 private:
  void extend() {
    if (order_.size() == graph_.op_count()) {
      evaluate();
      return;
    }
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
      const bool ready =
          !placed_[i] && std::ranges::all_of(graph_.predecessors(OpId(i)), [&](OpId p) {
            return placed_[static_cast<std::size_t>(p.index)];
          });
      if (!ready) continue;
      placed_[i] = true;
      order_.emplace_back(i);
      extend();
      order_.pop_back();
      placed_[i] = false;
    }
  }

  void evaluate() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      Decisions decisions = test::random_decisions(graph_, random_, attempt * 4);
      decisions.order = order_;
      const auto program = lower(graph_, decisions);
      if (program) best_ = std::min(best_, simulate(graph_, *program, costs_).peak());
    }
  }

  const Graph& graph_;
  const CostTable& costs_;
  test::Random random_;
  std::vector<bool> placed_;
  std::vector<OpId> order_;
  Bytes best_ = std::numeric_limits<Bytes>::max();
};

TEST(LowerBound, HoldsForEveryOrderOfSmallGraphsAndIsOftenReached) {
  int reached = 0;
  int graphs = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::make_random_graph(seed, 4, {.inputs = 2});
    if (graph.op_count() > 8) continue;
    const CostTable costs = make_cost_table(graph, device_profile("cpu"));
    const Bytes best = BestPeak(graph, costs, seed).find();
    const LowerBound bound = lower_bound(graph, costs);
    EXPECT_LE(bound.bytes, best) << to_text(graph);
    reached += bound.bytes == best;
    ++graphs;
  }
  EXPECT_GE(graphs, 30);
  EXPECT_GE(reached, graphs / 2);
}

}  // namespace
}  // namespace magis
