#include "magis/simulate/measured_times.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/graph/text.h"
#include "magis/simulate/profile.h"

namespace magis {
namespace {

Graph graph_of(const std::string& text) {
  return parse_graph("magis 1\ndevice cpu\n" + text, "test");
}

DeviceProfile with_times(std::vector<std::pair<std::string, Seconds>> rows) {
  auto times = std::make_shared<MeasuredTimes>();
  for (auto& [key, seconds] : rows) times->add(key, seconds);
  DeviceProfile profile = device_profile("cpu");
  profile.measured = std::move(times);
  return profile;
}

TEST(CallKey, SpellsTheCallWithTypesInPlaceOfNames) {
  const Graph graph = graph_of(R"(batch %x "x" : f32[8,64]
batch %w "w" : f32[32,64]
scalar %s "[2]"
%t = aten.permute(%w, [1, 0]) : f32[64,32]{1,64}
%a = aten.addmm(%x, %x, %t, beta=0.5) : f32[8,32]
%b = aten.mul.Tensor(%a, %s) : f32[8,32]
%c, %m, %r = aten.native_layer_norm(%b, [32], none, none, 1e-05) : f32[8,32], f32[8,1], f32[8,1]
%d = aten.bernoulli.p(%x, 0.1) : f32[8,64]
output loss "" %c
output aux "" %a
output aux "d" %d
)");
  EXPECT_EQ(call_key(graph, OpId(0)),
            "aten.addmm(%0, %0, %1, beta=0.5) : f32[8,32] of f32[8,64], f32[64,32]{1,64}");
  EXPECT_EQ(call_key(graph, OpId(1)), "aten.mul.Tensor(%0, %1) : f32[8,32] of f32[8,32], scalar");
  EXPECT_EQ(call_key(graph, OpId(2)),
            "aten.native_layer_norm(%0, [32], none, none, 1e-05) : f32[8,32], f32[8,1], f32[8,1]"
            " of f32[8,32]");
}

// The same operator on the same types is another call where its operand dies: it runs in place.
TEST(CallKey, SaysWhatIsOverwritten) {
  const Graph graph = graph_of(R"(batch %x "x" : f32[8]
%a = aten.relu(%x) : f32[8]
%b = aten.relu(%a) : f32[8]
%c = aten.add.Tensor(%a, %b) : f32[8]
%d = aten.relu(%c) : f32[8]
output loss "" %d
output aux "" %c
)");
  EXPECT_EQ(call_key(graph, OpId(0)), "aten.relu(%0) : f32[8] of f32[8]");  // %x is an input
  EXPECT_EQ(call_key(graph, OpId(1)), "aten.relu(%0) : f32[8] of f32[8]");  // %a is read later
  EXPECT_EQ(call_key(graph, OpId(2)), "aten.add.Tensor(%0, %1) over 0 : f32[8] of f32[8], f32[8]");
  EXPECT_EQ(call_key(graph, OpId(3)), "aten.relu(%0) : f32[8] of f32[8]");  // %c is an output
}

// 8 rows in parts of 3: the last iteration walks 2.
const std::string kLoop = R"(batch %x "x" : f32[8,64]
param %w "w" : f32[64,32]
%y = magis.begin("r1", 3, 8, []) : f32[8,32]
%p = magis.part(%x, 0, 1*r1) : f32[3,64]/2048
%mm = aten.mm(%p, %w) : f32[3,32]
%v = aten.view(%mm, [1*r1, 4, 8]) : f32[3,4,8]
%e = aten.exp(%v) : f32[3,4,8]
%f = aten.view(%e, [1*r1, 32]) : f32[3,32]
%n = magis.write_part(%y, 0, 1*r1, %f) : none
%end = magis.end("r1", [%y], [])  : none
output loss "" %y
)";
const std::string kFullMm = "aten.mm(%0, %1) : f32[3,32] of f32[3,64], f32[64,32]";
const std::string kShortMm = "aten.mm(%0, %1) : f32[2,32] of f32[2,64], f32[64,32]";

TEST(CallCounts, ALastPartThatIsShorterHasCallsOfItsOwn) {
  const Graph graph = graph_of(kLoop);
  const IdMap<OpId, int> once(graph.op_count(), 1);
  std::vector<std::pair<std::string, double>> runs;
  for (const CallCount& call : count_calls(graph, once, device_profile("cpu"))) {
    runs.emplace_back(call.key, call.runs);
    EXPECT_FALSE(call.measured);
  }
  const std::vector<std::pair<std::string, double>> expected = {
      {kShortMm, 1},
      {kFullMm, 2},
      {"aten.exp(%0) over 0 : f32[2,4,8] of f32[2,4,8]", 1},
      {"aten.exp(%0) over 0 : f32[3,4,8] of f32[3,4,8]", 2},
      {"magis.write_part(%0, 0, 2, %1) : none of f32[8,32], f32[2,32]", 1},
      {"magis.write_part(%0, 0, 3, %1) : none of f32[8,32], f32[3,32]", 2}};
  EXPECT_EQ(runs, expected);
}

TEST(CallCounts, OperatorsThatRunAgainCountAgain) {
  const Graph graph = graph_of(kLoop);
  IdMap<OpId, int> copies(graph.op_count(), 1);
  copies[OpId(1)] = 2;
  const auto calls = count_calls(graph, copies, with_times({{kFullMm, 0.5}}));
  EXPECT_EQ(calls[1].runs, 4);
  EXPECT_TRUE(calls[1].measured);
  EXPECT_EQ(calls[1].seconds, 0.5);
}

TEST(MeasuredTimes, GoAheadOfTheProfile) {
  const Graph graph = graph_of(R"(batch %x "x" : f32[64,128]
batch %w "w" : f32[128,32]
%a = aten.mm(%x, %w) : f32[64,32]
%b = aten.relu(%a) : f32[64,32]
output loss "" %b
)");
  const DeviceProfile profile =
      with_times({{"aten.mm(%0, %1) : f32[64,32] of f32[64,128], f32[128,32]", 0.25}});
  const CostTable costs = make_cost_table(graph, profile);
  EXPECT_EQ(costs.seconds[OpId(0)], 0.25);
  EXPECT_EQ(costs.seconds[OpId(1)], make_cost_table(graph, device_profile("cpu")).seconds[OpId(1)]);
  EXPECT_EQ(profile.measured->lookups(), 2);
  EXPECT_EQ(profile.measured->misses(), 1);
}

// Two full iterations and one of two rows.
TEST(MeasuredTimes, OfFullAndShorterPartsAddUp) {
  const Graph graph = graph_of(kLoop);
  const DeviceProfile both = with_times({{kFullMm, 3}, {kShortMm, 1.5}});
  EXPECT_DOUBLE_EQ(make_cost_table(graph, both).seconds[OpId(1)], 2 * 3 + 1.5);
  // Without a time of its own the last part takes its share of what is not launch.
  const DeviceProfile full = with_times({{kFullMm, 3}});
  const Seconds launch = full.launch;
  EXPECT_DOUBLE_EQ(make_cost_table(graph, full).seconds[OpId(1)],
                   2 * 3 + launch + (3 - launch) * 2 / 3);
}

TEST(CallHash, IsTheSameForWhatIsSpelledAlike) {
  // Pairs of calls that differ in one thing; the last two are alike.
  const Graph graph = graph_of(R"(batch %x "x" : f32[8,8]
batch %y "y" : f32[8,8]{1,8}
batch %z "z" : f64[8,8]
%a = aten.sum.dim_IntList(%x, [0]) : f32[8]
%b = aten.sum.dim_IntList(%x, [1]) : f32[8]
%c = aten.mm(%x, %y) : f32[8,8]
%d = aten.mm(%x, %x) : f32[8,8]
%e = aten.mm(%y, %x) : f32[8,8]
%f = aten.mm(%z, %z) : f64[8,8]
%g = aten.mul.Tensor(%x, 1.0) : f32[8,8]
%h = aten.mul.Tensor(%x, 1) : f32[8,8]
%i = aten.full([8,8], 0.5, dtype=torch.float32) : f32[8,8]
%j = aten.full([8,8], 0.25, dtype=torch.float32) : f32[8,8]
%k = mylib.f(%x, "one") : f32[8,8]
%l = mylib.f(%x, "two") : f32[8,8]
%m = mylib.f(%x, ["one"]) : f32[8,8]
%n = aten.mm(%x, %y) : f32[8,8]
%o = aten.add.Tensor(%n, %x) : f32[8,8]
%p = aten.add.Tensor(%m, %x) : f32[8,8]
output loss "" %p
output aux "m" %m
output aux "o" %o
)");
  for (std::size_t a = 0; a < graph.op_count(); ++a) {
    for (std::size_t b = 0; b < graph.op_count(); ++b) {
      EXPECT_EQ(call_key(graph, OpId(a)) == call_key(graph, OpId(b)),
                call_hash(graph, OpId(a)) == call_hash(graph, OpId(b)))
          << call_key(graph, OpId(a)) << '\n'
          << call_key(graph, OpId(b));
    }
  }
}

TEST(MeasuredTimes, SpellsACallOnce) {
  const Graph graph = graph_of(R"(batch %x "x" : f32[8,8]
%a = aten.mm(%x, %x) : f32[8,8]
%b = aten.mm(%x, %x) : f32[8,8]
%c = aten.cos(%x) : f32[8,8]
output loss "" %a
output aux "b" %b
output aux "c" %c
)");
  MeasuredTimes times;
  times.add(call_key(graph, OpId(0)), 3);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(times.find(graph, OpId(0)), 3);
    EXPECT_EQ(times.find(graph, OpId(1)), 3);
    EXPECT_EQ(times.find(graph, OpId(2)), std::nullopt);
  }
  EXPECT_EQ(times.lookups(), 6);
  EXPECT_EQ(times.misses(), 2);
  EXPECT_EQ(times.spelled(), 2);
}

TEST(MeasuredTimes, TakeOnlyTimes) {
  MeasuredTimes times;
  EXPECT_THROW(times.add("a", -1), UserError);
  EXPECT_THROW(times.add("a", std::numeric_limits<double>::quiet_NaN()), UserError);
  EXPECT_THROW(times.add("a", std::numeric_limits<double>::infinity()), UserError);
  times.add("a", 1);
  times.add("a", 2);
  EXPECT_EQ(times.find("a"), 2);
  EXPECT_EQ(times.find("b"), std::nullopt);
}

}  // namespace
}  // namespace magis
