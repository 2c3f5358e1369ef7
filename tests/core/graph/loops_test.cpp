// Loops in a graph: what the language takes, what it means for order, lifetimes, time and code.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "magis/codegen/python.h"
#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "magis/simulate/simulate.h"
#include "support/expect_error.h"

namespace magis {
namespace {

// Two matrix products over eight rows, in parts of three: one concatenated result, one sum.
const std::string kLoop = R"(magis 1
device cpu

param %w "w" : f32[64,32]
batch %x "x" : f32[8,64]

%h = aten.relu(%x) : f32[8,64]
%dw, %y = magis.begin("r1", 3, 8, [%h]) : f32[64,32], f32[8,32]
%part = magis.part(%h, 0, 1*r1) : f32[3,64]/2048
%mm = aten.mm(%part, %w) : f32[3,32]
%g = aten.relu(%mm) : f32[3,32]
%n1 = magis.write_part(%y, 0, 1*r1, %g) : none
%t = aten.permute(%part, [1,0]) : f32[64,3]{1,64}/2048
%n2 = magis.add_mm_part(%dw, %t, %g) : none
%end = magis.end("r1", [%dw,%y], [%h]) : none
%z = aten.sum(%y) : f32[]

output loss "" %z
output grad "w" %dw
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

OpId op_named(const Graph& graph, std::string_view result) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (graph.name(OpId(i)) == result) return OpId(i);
  }
  ADD_FAILURE() << result;
  return {};
}

TEST(Loops, TextIsCanonical) {
  const Graph graph = parse_graph(kLoop, "test");
  verify(graph);
  EXPECT_EQ(to_text(graph), kLoop);
}

TEST(Loops, KnowTheirExtent) {
  const Graph graph = parse_graph(kLoop, "test");
  ASSERT_EQ(graph.loops().size(), 1u);
  const Loop& loop = graph.loop(LoopId(0));
  EXPECT_EQ(loop.iterations(), 3);
  EXPECT_EQ(loop.last_part(), 2);
  EXPECT_FALSE(loop.is_even());
  EXPECT_EQ(loop.begin, op_named(graph, "dw"));
  EXPECT_EQ(loop.end, op_named(graph, "end"));
  EXPECT_FALSE(graph.loop_of(op_named(graph, "h")).valid());
  EXPECT_TRUE(graph.loop_of(op_named(graph, "mm")).valid());
  EXPECT_FALSE(graph.loop_of(loop.begin).valid());
}

TEST(Loops, AreLeftBeforeTheirResultsAreRead) {
  const Graph graph = parse_graph(kLoop, "test");
  const auto before = graph.predecessors(op_named(graph, "z"));
  EXPECT_EQ(std::ranges::count(before, op_named(graph, "end")), 1);
}

// h (2048) lives through the loop; dw (8192) and y (1024) are there from its beginning; a part of
// mm takes 3 x 32 x 4 = 384, and g runs over it: 2048 + 8192 + 1024 + 384. Outputs do not count
// twice.
TEST(Loops, AreCountedAtTheSizeOfAPart) {
  const Graph graph = parse_graph(kLoop, "test");
  const CostTable costs = make_cost_table(graph, device_profile("reference"));
  const auto program = lower(graph, program_order(graph));
  ASSERT_TRUE(program);
  verify(graph, *program);
  EXPECT_EQ(simulate(graph, *program, costs).transient_peak, 11648);
}

// Two full parts and one of two thirds: the launch is paid three times.
TEST(Loops, TakeTheTimeOfTheirParts) {
  const DeviceProfile& profile = device_profile("reference");
  const Graph graph = parse_graph(kLoop, "test");
  const CostTable costs = make_cost_table(graph, profile);
  const Bytes traffic = (3 * 64 + 64 * 32 + 3 * 32) * 4;
  const Seconds work = 2.0 * 3 * 64 * 32 / (35e12 * 0.6) + static_cast<double>(traffic) / 936e9;
  EXPECT_NEAR(costs.seconds[op_named(graph, "mm")], 3 * profile.launch + work * (2 + 2.0 / 3),
              1e-12);
  EXPECT_EQ(costs.seconds[op_named(graph, "dw")], 0);
}

TEST(Loops, BecomePythonLoops) {
  const Graph graph = parse_graph(kLoop, "test");
  const std::string python = emit_python(graph, *lower(graph, program_order(graph)), "");
  EXPECT_EQ(python.substr(python.find("    h = ")), R"(    h = aten_relu(x)

    # 8 units in parts of 3, the last one may be shorter
    dw = torch.empty((64, 32), dtype=torch.float32, device='cpu')
    y = torch.empty((8, 32), dtype=torch.float32, device='cpu')
    for r1 in range(0, 8, 3):
        r1_length = min(3, 8 - r1)
        mm = aten_mm(h.narrow(0, r1, r1_length), w)
        g = aten_relu_(mm)
        del mm
        y.narrow(0, r1, r1_length).copy_(g)
        dw.addmm_(h.narrow(0, r1, r1_length).permute(1, 0), g, beta=0 if r1 == 0 else 1)
        del g

    del h
    z = aten_sum(y)
    del y
    return (
        z,  # loss
        dw,  # grad w
    )
)");
}

TEST(Loops, EvenPartsAreNumbersInPython) {
  std::string even = replaced(kLoop, "\"r1\", 3, 8", "\"r1\", 4, 8");
  for (const char* row : {"[3,64]", "[3,32]", "[3,32]"}) {
    even = replaced(even, row, std::string("[4") + (row + 2));
  }
  even = replaced(even, "f32[64,3]", "f32[64,4]");
  const Graph graph = parse_graph(even, "test");
  const std::string python = emit_python(graph, *lower(graph, program_order(graph)), "");
  EXPECT_NE(python.find("for r1 in range(0, 8, 4):\n        mm = aten_mm(h.narrow(0, r1, 4), w)"),
            std::string::npos)
      << python;
}

std::string problem(const std::string& from, const std::string& to) {
  const std::string message =
      test::message_of<UserError>([&] { parse_graph(replaced(kLoop, from, to), "test"); });
  return message.substr(message.find(": ") + 2, message.find('\n') - message.find(": ") - 2);
}

TEST(Loops, SayWhatIsWrongWithThem) {
  EXPECT_EQ(problem("aten.sum(%y)", "aten.sum(%g)"),
            "%z reads %g, which is made anew in every part of r1");
  EXPECT_EQ(problem("aten.sum(%y)", "aten.sum(%part)"),
            "%z depends on the part of r1 outside that loop");
  EXPECT_EQ(problem("8, [%h]", "8, []"),
            "the reads of loop r1 are not the tensors that its body reads");
  EXPECT_EQ(problem("[%dw,%y], [%h]", "[%dw], [%h]"),
            "the end of r1 does not name the results of its begin");
  EXPECT_EQ(problem("\"r1\", 3, 8", "\"r1\", 9, 8"), "a part of 9 is no part of 8");
  EXPECT_EQ(problem("end(\"r1\"", "end(\"r2\""), "the loop to end here is r1, not r2");
  EXPECT_EQ(problem("%end = magis.end(\"r1\", [%dw,%y], [%h]) : none\n", ""),
            "expected the end of loop r1, found `output`");
  EXPECT_EQ(problem("magis.part(%h, 0, 1*r1)", "magis.part(%h, 0, 1*r2)"),
            "there is no loop `r2` here");
  EXPECT_EQ(problem("magis.part(%h, 0, 1*r1)", "magis.part(%h, 0, 3)"),
            "%part: magis.part takes a tensor, a dimension and a part length");
  EXPECT_EQ(problem("%g = aten.relu(%mm)", "%g = magis.bernoulli([3,32], [32,1], 0.5)"),
            "%g: magis.bernoulli cannot run in parts of r1");
  EXPECT_EQ(problem("write_part(%y, 0, 1*r1, %g)", "write_part(%w, 0, 1*r1, %g)"),
            "%n1 writes to %w, which is no result of the loop around it");
}

}  // namespace
}  // namespace magis
