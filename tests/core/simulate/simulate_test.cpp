#include "magis/simulate/simulate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "magis/graph/text.h"
#include "schedule/plan_names.h"

namespace magis {
namespace {

Simulation simulated(const PlanText& plan, std::string_view profile = "reference") {
  verify(plan.graph, plan.program);
  const CostTable costs = make_cost_table(plan.graph, device_profile(profile));
  const Simulation simulation = simulate(plan.graph, plan.program, costs);
  const Footprint fast = footprint(plan.graph, plan.program, costs);
  EXPECT_EQ(fast.transient_peak, simulation.transient_peak);
  EXPECT_EQ(fast.seconds, simulation.seconds);
  return simulation;
}

std::string hotspots(const Graph& graph, const Simulation& simulation) {
  std::string names;
  for (const CopyRef& copy : simulation.hotspots) {
    names += (names.empty() ? "" : " ") + copy_name(graph, copy);
  }
  return names;
}

std::vector<Bytes> live(const Simulation& simulation) {
  std::vector<Bytes> bytes;
  for (const TimelinePoint& point : simulation.timeline) bytes.push_back(point.live);
  return bytes;
}

// %x 1000, %a 1200, %b 800, %c 400, %d 100 bytes.
const std::string kGraph = R"(magis 1
device cpu
batch %x "x" : f32[250]
%a = aten.mm(%x, %x) : f32[300]
%b = aten.mm(%a, %x) : f32[200]
%c = aten.mm(%a, %b) : f32[100] scratch 70
%d = aten.mm(%c, %b) : f32[25]
output loss "" %d
)";

TEST(Simulate, CountsResultsFromTheirStartAndOperandsToTheirEnd) {
  const PlanText plan = parse_plan(
      kGraph + "program\nrun %a\nrun %b\nrun %c\nfree %a\nrun %d\nfree %c, %b\n", "test");
  const Simulation simulation = simulated(plan);
  // a; a + b; a + b + c + scratch; b + c + d
  EXPECT_EQ(live(simulation),
            (std::vector<Bytes>{1200, 1200 + 800, 1200 + 800 + 400 + 70, 800 + 400 + 100}));
  EXPECT_EQ(simulation.persistent, 1000);
  EXPECT_EQ(simulation.transient_peak, 2470);
  EXPECT_EQ(simulation.peak(), 3470);
  EXPECT_EQ(simulation.peak_statement, 2);
  EXPECT_EQ(hotspots(plan.graph, simulation), "a b c");
}

TEST(Simulate, CountsCopiesAsTensorsOfTheirOwn) {
  const PlanText plan =
      parse_plan(kGraph +
                     "program\nrun %a\nrun %b\nfree %b\nrun %b as .1\nrun %b as .2\n"
                     "run %c reading %b.1\nfree %a, %b.1\nrun %d reading %b.2\n",
                 "test");
  const Simulation simulation = simulated(plan);
  // a; a + b; a + b.1; a + b.1 + b.2; a + b.1 + b.2 + c + scratch; b.2 + c + d
  EXPECT_EQ(live(simulation),
            (std::vector<Bytes>{1200, 2000, 2000, 2800, 2800 + 400 + 70, 800 + 400 + 100}));
  EXPECT_EQ(hotspots(plan.graph, simulation), "a b.1 b.2 c");
}

TEST(Simulate, ALoadTakesItsBytesFromThereOn) {
  const PlanText plan =
      parse_plan(kGraph +
                     "program\nrun %a\nrun %b\nstore %b\nload %b as .1\nawait %b, %b.1\nfree %b\n"
                     "run %c reading %b.1\nfree %a\nrun %d reading %b.1\nfree %c, %b.1\n",
                 "test");
  const Simulation simulation = simulated(plan);
  // a; a + b; a + b.1 + c + scratch; b.1 + c + d
  EXPECT_EQ(live(simulation), (std::vector<Bytes>{1200, 2000, 2470, 1300}));
  EXPECT_EQ(simulation.transient_peak, 1200 + 800 + 800);
  EXPECT_EQ(simulation.peak_statement, 3);
  EXPECT_EQ(hotspots(plan.graph, simulation), "a b b.1");
  EXPECT_EQ(simulation.host_peak, 832);  // 800, rounded up
  EXPECT_EQ(simulation.bytes_to_host, 800);
  EXPECT_EQ(simulation.bytes_to_device, 800);
}

TEST(Simulate, TheFirstMomentOfPeakIsReported) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
batch %x "x" : f32[250]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.mm(%a, %x) : f32[100]
%c = aten.mm(%b, %x) : f32[100]
output loss "" %c
program
run %a
run %b
free %a
run %c
free %b
)",
                                   "test");
  const Simulation simulation = simulated(plan);
  EXPECT_EQ(simulation.transient_peak, 800);
  EXPECT_EQ(simulation.peak_statement, 1);
  EXPECT_EQ(hotspots(plan.graph, simulation), "a b");
}

TEST(Simulate, ARunInPlaceAllocatesNothing) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
batch %x "x" : f32[250]
%a = aten.mm(%x, %x) : f32[100]
%b = aten.relu(%a) : f32[100]
%c = aten.relu(%b) : f32[100]
output loss "" %c
program
run %a
run %b over %a
run %c
free %b
)",
                                   "test");
  const Simulation simulation = simulated(plan);
  EXPECT_EQ(live(simulation), (std::vector<Bytes>{400, 400, 800}));
  EXPECT_EQ(hotspots(plan.graph, simulation), "b c");
}

TEST(Simulate, CudaAllocationsAreRoundedUp) {
  const PlanText plan = parse_plan(
      kGraph + "program\nrun %a\nrun %b\nrun %c\nfree %a\nrun %d\nfree %c, %b\n", "test");
  const Simulation simulation = simulated(plan, "a100");
  // Multiples of 512: %x 1024, %a 1536, %b 1024, %c 512, scratch 512, %d 512.
  EXPECT_EQ(simulation.persistent, 1024);
  EXPECT_EQ(live(simulation), (std::vector<Bytes>{1536, 2560, 3584, 2048}));
}

TEST(Simulate, ResultsThatTakeNoBytesAreFree) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
batch %x "x" : f32[0,4]
scalar %weight "[1]"
%a = aten.mul.Tensor(%x, %weight) : f32[0,4]
%u = aten.add_.Tensor(%x, %a) : none
output loss "" %a
program
run %a
run %u
)",
                                   "test");
  const Simulation simulation = simulated(plan);
  EXPECT_EQ(simulation.peak(), 0);
  EXPECT_EQ(live(simulation), (std::vector<Bytes>{0, 0}));
}

TEST(Simulate, AProgramWithoutOperatorsIsEmpty) {
  const PlanText plan = parse_plan(
      "magis 1\ndevice cpu\nbatch %x \"x\" : f32[4]\noutput aux \"\" %x\n"
      "program\n",
      "test");
  const Simulation simulation = simulated(plan);
  EXPECT_EQ(simulation.peak(), 16);
  EXPECT_EQ(simulation.peak_statement, -1);
  EXPECT_TRUE(simulation.hotspots.empty());
}

TEST(Simulate, TimeIsTheSumOfWhatRuns) {
  const PlanText plan = parse_plan(R"(magis 1
device cpu
batch %x "x" : f32[64,128]
batch %w "w" : f32[128,32]
%a = aten.mm(%x, %w) : f32[64,32]
%b = aten.relu(%a) : f32[64,32]
%c = aten.mm(%b, %a) : f32[64,32]
output loss "" %c
program
run %a
run %a as .1
run %b over %a
run %c reading %a.1
)",
                                   "test");
  const Simulation simulation = simulated(plan);
  const auto& costs = make_cost_table(plan.graph, device_profile("reference"));
  EXPECT_DOUBLE_EQ(simulation.seconds,
                   2 * costs.seconds[OpId(0)] + costs.seconds[OpId(1)] + costs.seconds[OpId(2)]);
  EXPECT_DOUBLE_EQ(simulation.timeline[2].start, 2 * costs.seconds[OpId(0)]);
  EXPECT_EQ(simulation.timeline[3].end, simulation.seconds);
  EXPECT_EQ(simulation.timeline[1].statement, 1);
}

}  // namespace
}  // namespace magis
