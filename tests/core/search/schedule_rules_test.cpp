// The paper's four schedule rules (section 5.2, figure 8) on one tensor that is needed again late:
// rematerialize, undo it, swap, undo it; and what comes of using both.
#include <gtest/gtest.h>

#include <string>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "search/evaluator.h"

namespace magis {
namespace {

constexpr Bytes kMatrix = 4'000'000;

// a is made, read by b, and again by e; what lies between does not need it.
constexpr char kChain[] = R"(magis 1
device cpu
batch %x "x" : f32[1000,1000]
%a = aten.mm(%x, %x) : f32[1000,1000]
%b = aten.mm(%a, %x) : f32[1000,1000]
%c = aten.mm(%b, %x) : f32[1000,1000]
%d = aten.mm(%c, %c) : f32[1000,1000]
%e = aten.mm(%d, %a) : f32[1000,1000]
%f = aten.mm(%e, %b) : f32[1000,1000]
output loss "" %f
)";

class ScheduleRules : public testing::Test {
 protected:
  void SetUp() override { evaluator.load(program_order(graph)); }

  EdgeId use(int op, const std::string& tensor) const {
    EdgeId edge = graph.first_edge(OpId(op));
    for (const TensorId read : graph.reads(OpId(op))) {
      if (graph.value(graph.tensor(read).value).name == tensor) return edge;
      ++edge.index;
    }
    return {};
  }
  Program program() const { return lower(graph, evaluator.decisions()).value(); }
  // The statements alone.
  std::string text() const {
    const std::string all = to_text(graph, program());
    return all.substr(all.find("program\n"));
  }
  Bytes peak() const {
    verify(graph, program());
    EXPECT_EQ(footprint(graph, program(), costs).transient_peak, evaluator.peak());
    return evaluator.peak();
  }

  const Graph graph = parse_graph(kChain, "chain");
  const CostTable costs = make_cost_table(graph, device_profile("reference"));
  const Problem problem{graph, costs};
  Evaluator evaluator{problem};
  const EdgeId late_a = use(4, "a");
  const EdgeId late_b = use(5, "b");
};

TEST_F(ScheduleRules, RematerializeAndUndo) {
  const std::string before = text();
  EXPECT_EQ(peak(), 4 * kMatrix);
  evaluator.set_mode(late_a, Mode::recompute);
  EXPECT_EQ(text(),
            "program\n"
            "run %a\nrun %b\nfree %a\nrun %c\nrun %d\nfree %c\n"
            "run %a as .1\nrun %e reading %a.1\nfree %d, %a.1\nrun %f\nfree %e, %b\n");
  // While e runs: b, d, a again, e. What a's absence saves, its return takes.
  EXPECT_EQ(peak(), 4 * kMatrix);
  evaluator.set_mode(late_a, Mode::keep);
  EXPECT_EQ(text(), before);
}

TEST_F(ScheduleRules, SwapAndUndo) {
  const std::string before = text();
  evaluator.set_gap({late_a, OpId(2), OpId(4)});
  EXPECT_EQ(text(),
            "program\n"
            "run %a\nstore %a\nrun %b\nawait %a\nfree %a\nrun %c\nrun %d\nfree %c\n"
            "load %a as .1\nawait %a.1\nrun %e reading %a.1\nfree %d, %a.1\nrun %f\nfree %e, %b\n");
  EXPECT_EQ(peak(), 4 * kMatrix);
  evaluator.set_mode(late_a, Mode::keep);
  EXPECT_EQ(text(), before);
}

// Three matrices at most only if a and b both leave: one by each rule.
TEST_F(ScheduleRules, BothTogether) {
  evaluator.set_gap({late_b, OpId(3), OpId(5)});
  evaluator.set_mode(late_a, Mode::recompute);
  EXPECT_EQ(text(),
            "program\n"
            "run %a\nrun %b\nfree %a\nstore %b\nrun %c\nawait %b\nfree %b\nrun %d\nfree %c\n"
            "run %a as .1\nrun %e reading %a.1\nfree %d, %a.1\n"
            "load %b as .1\nawait %b.1\nrun %f reading %b.1\nfree %e, %b.1\n");
  EXPECT_EQ(peak(), 3 * kMatrix);
}

// a, back from the host for e and needed once more by the end, serves the recomputation of b.
TEST(ScheduleRulesTogether, ASwappedTensorServesARecomputation) {
  std::string text(kChain);
  text.replace(text.find("output"), std::string::npos,
               "%g = aten.mm(%f, %a) : f32[1000,1000]\noutput loss \"\" %g\n");
  const Graph graph = parse_graph(text, "chain");
  const CostTable costs = make_cost_table(graph, device_profile("reference"));
  const Problem problem(graph, costs);
  Evaluator evaluator(problem);
  evaluator.load(program_order(graph));
  const EdgeId a_of_e(graph.first_edge(OpId(4)).index + 1);
  const EdgeId b_of_f(graph.first_edge(OpId(5)).index + 1);
  evaluator.set_gap({a_of_e, OpId(2), OpId(4)});
  evaluator.set_mode(b_of_f, Mode::recompute);
  ASSERT_EQ(evaluator.chain_at(5).size(), 1U);  // b alone: a is back
  const Program program = lower(graph, evaluator.decisions()).value();
  verify(graph, program);
  EXPECT_EQ(footprint(graph, program, costs).transient_peak, evaluator.peak());
}

}  // namespace
}  // namespace magis
