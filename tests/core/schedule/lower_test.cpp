#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"

namespace magis {
namespace {

// "%consumer reads %tensor" -> mode; the consumer is named by its first result.
using Modes = std::map<std::pair<std::string, std::string>, Mode>;

Decisions decide(const Graph& graph, const Modes& modes) {
  Decisions decisions = program_order(graph);
  std::size_t set = 0;
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    const EdgeId edge(e);
    const std::string& consumer = graph.value(graph.op(graph.edge_op(edge)).results[0]).name;
    const std::string& tensor = graph.value(graph.tensor(graph.edge_tensor(edge)).value).name;
    const auto mode = modes.find({consumer, tensor});
    if (mode == modes.end()) continue;
    decisions.modes[edge] = mode->second;
    ++set;
  }
  EXPECT_EQ(set, modes.size()) << "the test names an edge that is not there";
  return decisions;
}

// The program's lines of what lower() makes; "none" if it makes nothing.
// In program order, or that of `order`.
std::string lowered(const std::string& text, const Modes& modes = {},
                    const std::vector<std::string>& order = {}) {
  const Graph graph = parse_graph(text, "test");
  Decisions decisions = decide(graph, modes);
  if (!order.empty()) decisions.order.clear();
  for (const std::string& name : order) {
    std::size_t op = 0;
    while (graph.name(OpId(op)) != name) ++op;
    decisions.order.emplace_back(op);
  }
  const auto program = lower(graph, decisions);
  if (!program) return "none";
  verify(graph, *program);
  const std::string plan = to_text(graph, *program);
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

TEST(Lower, FreesAfterTheLastUseInProgramOrder) {
  EXPECT_EQ(lowered(kChain),
            "run %a\n"
            "run %b\n"
            "run %c\n"
            "run %d\n"
            "free %c, %b\n"
            "run %e\n"
            "free %d, %a\n");
}

TEST(Lower, FollowsTheOrderOfTheDecisions) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%x, %x) : f32[16,16]
%c = aten.mm(%a, %b) : f32[16,16]
output loss "" %c
)",
                                  "test");
  Decisions decisions = program_order(graph);
  std::swap(decisions.order[0], decisions.order[1]);
  const Program program = lower(graph, decisions).value();
  EXPECT_EQ(program.statements[0].op, OpId(1));
  EXPECT_EQ(program.statements[1].op, OpId(0));
  verify(graph, program);
}

TEST(Lower, RecomputesRightBeforeTheUse) {
  EXPECT_EQ(lowered(kChain, {{{"e", "a"}, Mode::recompute}}),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %c\n"
            "run %d\n"
            "free %c, %b\n"
            "run %a as .1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
}

// %d asks for %b again, which asks for %a again; %e reads the %a that this chain has made.
TEST(Lower, ACopyMadeByAChainServesTheNextUse) {
  EXPECT_EQ(lowered(kChain, {{{"d", "b"}, Mode::recompute}, {{"e", "a"}, Mode::recompute}}),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %e reading %a.1\n"
            "free %d, %a.1\n");
}

// %d and %e ask for %b again, whose chains ask for %a; %f reads the %a of the second one.
TEST(Lower, LateKeepsNoCopyOfEarlierChains) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
%e = aten.mm(%d, %b) : f32[16,16]
%f = aten.mm(%e, %a) : f32[16,16]
output loss "" %f
)";
  const auto with = [&](Mode mode) {
    return lowered(
        text,
        {{{"d", "b"}, Mode::recompute}, {{"e", "b"}, Mode::recompute_anew}, {{"f", "a"}, mode}});
  };
  constexpr OpId kD(3);
  constexpr OpId kE(4);
  constexpr OpId kF(5);
  EXPECT_EQ(with(Mode::late(kE)),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1\n"
            "free %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %a as .2\n"
            "run %b as .2 reading %a.2\n"
            "run %e reading %b.2\n"
            "free %d, %b.2\n"
            "run %f reading %a.2\n"
            "free %e, %a.2\n");
  EXPECT_EQ(with(Mode::late(kD)), with(Mode::recompute));
  EXPECT_EQ(with(Mode::late(kF)), with(Mode::recompute_anew));
}

TEST(Lower, AnewMakesItsOwnCopy) {
  EXPECT_EQ(lowered(kChain, {{{"d", "b"}, Mode::recompute}, {{"e", "a"}, Mode::recompute_anew}}),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1\n"
            "free %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %a as .2\n"
            "run %e reading %a.2\n"
            "free %d, %a.2\n");
}

// A kept tensor is there for chains too.
TEST(Lower, AChainReadsWhatIsStillThere) {
  EXPECT_EQ(lowered(kChain, {{{"d", "b"}, Mode::recompute}}),
            "run %a\n"
            "run %b\n"
            "run %c\n"
            "free %b\n"
            "run %b as .1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %e\n"
            "free %d, %a\n");
}

// Recomputing right after it was made: the first use gets a copy.
TEST(Lower, DropsATensorThatIsRecomputedForItsFirstUse) {
  EXPECT_EQ(lowered(kChain, {{{"c", "b"}, Mode::recompute}}),
            "run %a\n"
            "run %b\n"
            "free %b\n"
            "run %b as .1\n"
            "run %c reading %b.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %e\n"
            "free %d, %a\n");
}

// Each operator runs at most once for one consumer, although both operands of %d need %a.
TEST(Lower, AChainRunsAnOperatorOnce) {
  EXPECT_EQ(lowered(R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%a, %a) : f32[16,16]
%z = aten.mm(%b, %c) : f32[16,16]
%d = aten.mm(%b, %c) : f32[16,16]
output loss "" %d
output aux "0" %z
)",
                    {{{"d", "b"}, Mode::recompute}, {{"d", "c"}, Mode::recompute_anew}}),
            "run %a\n"
            "run %b\n"
            "run %c\n"
            "free %a\n"
            "run %z\n"
            "free %b, %c\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1\n"
            "run %c as .1 reading %a.1\n"
            "free %a.1\n"
            "run %d reading %b.1, %c.1\n"
            "free %b.1, %c.1\n");
}

const std::string kNorm = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%ln, %mean, %rstd = aten.native_layer_norm(%x, [16], none, none, 1e-05) : f32[16,16], f32[16,1], f32[16,1]
%a = aten.mm(%ln, %x) : f32[16,16]
%b = aten.mm(%a, %ln) : f32[16,16]
%c = aten.mul.Tensor(%b, %mean) : f32[16,16]
output loss "" %c
)";

TEST(Lower, ARecomputedOperatorMakesAllResultsAndKeepsTheNeeded) {
  // %rstd is read by nobody; the copy of %mean is not needed, the original is still held.
  EXPECT_EQ(lowered(kNorm, {{{"b", "ln"}, Mode::recompute}}),
            "run %ln\n"
            "free %rstd\n"
            "run %a\n"
            "free %ln\n"
            "run %ln as .1\n"
            "free %mean.1, %rstd.1\n"
            "run %b reading %ln.1\n"
            "free %a, %ln.1\n"
            "run %c over %b\n"
            "free %mean\n");
}

TEST(Lower, ResultsThatAChainDoesNotNeedAreMadeAgainLater) {
  EXPECT_EQ(lowered(kNorm, {{{"b", "ln"}, Mode::recompute}, {{"c", "mean"}, Mode::recompute}}),
            "run %ln\n"
            "free %mean, %rstd\n"
            "run %a\n"
            "free %ln\n"
            "run %ln as .1\n"
            "free %mean.1, %rstd.1\n"
            "run %b reading %ln.1\n"
            "free %a, %ln.1\n"
            "run %ln as .2\n"
            "free %ln.2, %rstd.2\n"
            "run %c reading %mean.2 over %b\n"
            "free %mean.2\n");
}

TEST(Lower, OneRunOfAChainServesSeveralNeedsForItsResults) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%ln, %mean, %rstd = aten.native_layer_norm(%x, [16], none, none, 1e-05) : f32[16,16], f32[16,1], f32[16,1]
%a = aten.mm(%ln, %x) : f32[16,16]
%dx, %dw, %db = aten.native_layer_norm_backward(%a, %ln, [16], %mean, %rstd, none, none, [true, false, false]) : f32[16,16], none, none
output loss "" %dx
)";
  EXPECT_EQ(lowered(text, {{{"dx", "ln"}, Mode::recompute},
                           {{"dx", "mean"}, Mode::recompute},
                           {{"dx", "rstd"}, Mode::recompute}}),
            "run %ln\n"
            "free %mean, %rstd\n"
            "run %a\n"
            "free %ln\n"
            "run %ln as .1\n"
            "run %dx reading %ln.1, %mean.1, %rstd.1\n"
            "free %a, %ln.1, %mean.1, %rstd.1\n");
}

// Both operands may be overwritten: the first choice that dies here is taken.
TEST(Lower, RunsInPlaceOverTheFirstOperandThatDies) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%x, %x) : f32[16,16]
%c = aten.add.Tensor(%a, %b) : f32[16,16]
%d = aten.mul.Tensor(%c, %a) : f32[16,16]
%e = aten.relu(%d) : f32[16,16]
%f = aten.relu(%x) : f32[16,16]
%g = aten.mul.Tensor(%e, %f) : f32[16,16]
output loss "" %g
output aux "0" %e
)";
  EXPECT_EQ(lowered(text),
            "run %a\n"
            "run %b\n"
            "run %c over %b\n"  // %a is read again
            "run %d over %c\n"  // both die; the first is preferred
            "free %a\n"
            "run %e over %d\n"
            "run %f\n"            // %x is an input
            "run %g over %f\n");  // %e is an output
}

TEST(Lower, CopiesRunInPlaceToo) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.relu(%a) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
output loss "" %d
)";
  EXPECT_EQ(lowered(text, {{{"d", "b"}, Mode::recompute}}),
            "run %a\n"
            "run %b over %a\n"
            "run %c\n"
            "free %b\n"
            "run %a as .1\n"
            "run %b as .1 reading %a.1 over %a.1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n");
}

// A chain needs %a again, so %b must not overwrite it.
TEST(Lower, AChainKeepsAnOperandFromBeingOverwritten) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.relu(%a) : f32[16,16]
%c = aten.mm(%b, %x) : f32[16,16]
%d = aten.mm(%c, %b) : f32[16,16]
%e = aten.mm(%d, %a) : f32[16,16]
output loss "" %e
)";
  EXPECT_EQ(lowered(text, {{{"d", "b"}, Mode::recompute}}),
            "run %a\n"
            "run %b\n"
            "run %c\n"
            "free %b\n"
            "run %b as .1\n"
            "run %d reading %b.1\n"
            "free %c, %b.1\n"
            "run %e\n"
            "free %d, %a\n");
}

TEST(Lower, AnOutputIsNeverDropped) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
output aux "0" %a
output loss "" %b
)";
  EXPECT_EQ(lowered(text, {{{"b", "a"}, Mode::recompute_anew}}), "run %a\nrun %b\n");
}

TEST(Lower, FreesResultsThatNobodyReads) {
  EXPECT_EQ(lowered(R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%a = aten.mm(%x, %x) : f32[16,16]
%b = aten.mm(%x, %x) : f32[16,16]
output loss "" %b
)"),
            "run %a\n"
            "free %a\n"
            "run %b\n");
}

TEST(Lower, RefusesToRecomputeWhatIsRandom) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
%mask = magis.bernoulli([16,16], [16,1], 0.9, dtype=torch.float32) : f32[16,16]
%a = aten.mul.Tensor(%x, %mask) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%c = aten.mm(%b, %mask) : f32[16,16]
%d = aten.mm(%c, %a) : f32[16,16]
output loss "" %d
)";
  EXPECT_EQ(lowered(text, {{{"c", "mask"}, Mode::recompute}}), "none");
  // %a may run again while the mask is there, but not after its last use.
  EXPECT_EQ(lowered(text, {{{"b", "a"}, Mode::recompute}}),
            "run %mask\n"
            "run %a\n"
            "free %a\n"
            "run %a as .1\n"
            "run %b reading %a.1\n"
            "run %c\n"
            "free %b, %mask\n"
            "run %d reading %a.1\n"
            "free %c, %a.1\n");
  EXPECT_EQ(lowered(text, {{{"d", "a"}, Mode::recompute}}), "none");
}

// By the time of a second run the parameter may hold its new value: copies come before that.
TEST(Lower, RecomputesWhatReadsAParameterUntilItIsWritten) {
  const std::string text = R"(magis 1
device cpu
batch %x "x" : f32[16,16]
param %w "w" : f32[16,16]
%a = aten.mm(%x, %w) : f32[16,16]
%b = aten.mm(%a, %x) : f32[16,16]
%u = aten.add_.Tensor(%w, %b) : none
%c = aten.mm(%b, %a) : f32[16,16]
output loss "" %c
)";
  const Graph graph = parse_graph(text, "test");
  EXPECT_EQ(graph.overwriters(OpId(0)).front(), OpId(2));
  EXPECT_TRUE(graph.overwriters(OpId(1)).empty());
  EXPECT_EQ(lowered(text, {{{"c", "a"}, Mode::recompute}}), "none");
  EXPECT_EQ(lowered(text, {{{"c", "a"}, Mode::recompute}}, {"a", "b", "c", "u"}),
            "run %a\n"
            "run %b\n"
            "free %a\n"
            "run %a as .1\n"
            "run %c reading %a.1\n"
            "free %a.1\n"
            "run %u\n"
            "free %b\n");
}

// A chain as long as the graph: no recursion, no quadratic walk.
TEST(Lower, RecomputesThroughAVeryLongChain) {
  constexpr int kLength = 20000;
  std::string text = "magis 1\ndevice cpu\nbatch %x \"x\" : f32[4,4]\n";
  std::string previous = "%x";
  for (int i = 0; i < kLength; ++i) {
    const std::string name = "%v" + std::to_string(i);
    text += name + " = aten.mm(" + previous + ", %x) : f32[4,4]\n";
    previous = name;
  }
  text +=
      "%last = aten.mm(" + previous + ", " + previous + ") : f32[4,4]\noutput loss \"\" %last\n";
  const Graph graph = parse_graph(text, "test");
  Decisions decisions = program_order(graph);
  decisions.modes[EdgeId(graph.edge_count() - 1)] = Mode::recompute;
  const Program program = lower(graph, decisions).value();
  verify(graph, program);
  int runs = 0;
  for (const Statement& s : program.statements) runs += s.kind == Statement::Kind::run;
  EXPECT_EQ(runs, 2 * kLength + 1);
}

TEST(Lower, RejectsAnOrderThatReadsAheadAsABug) {
  const Graph graph = parse_graph(kChain, "test");
  Decisions decisions = program_order(graph);
  std::swap(decisions.order[0], decisions.order[1]);
  EXPECT_THROW(lower(graph, decisions), InternalError);
  decisions.order.pop_back();
  EXPECT_THROW(lower(graph, decisions), InternalError);
}

}  // namespace
}  // namespace magis
