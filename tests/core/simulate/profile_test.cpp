#include "magis/simulate/profile.h"

#include <gtest/gtest.h>

#include <string>

#include "magis/base/error.h"
#include "magis/graph/text.h"

namespace magis {
namespace {

CostTable costs_of(const std::string& statements, std::string_view profile) {
  const Graph graph = parse_graph("magis 1\ndevice cpu\n" + statements, "test");
  return make_cost_table(graph, device_profile(profile));
}

const std::string kMatmul = R"(batch %x "x" : f32[64,128]
batch %w "w" : f32[128,32]
%a = aten.mm(%x, %w) : f32[64,32]
output loss "" %a
)";
// 2 * 64 * 128 * 32 operations; 64 * 128, 128 * 32 and 64 * 32 floats.
constexpr double kMatmulFlops = 524288;
constexpr double kMatmulBytes = 4 * (8192 + 4096 + 2048);

TEST(Profile, ReferenceAddsArithmeticTrafficAndLaunch) {
  EXPECT_DOUBLE_EQ(costs_of(kMatmul, "reference").seconds[OpId(0)],
                   kMatmulFlops / (35e12 * 0.6) + kMatmulBytes / 936e9 + 5e-6);
}

TEST(Profile, ReferenceH2ChargesTwoMoreGigaflopPerMatmul) {
  EXPECT_DOUBLE_EQ(costs_of(kMatmul, "reference-h2").seconds[OpId(0)],
                   (kMatmulFlops + 2e9) / (35e12 * 0.6) + kMatmulBytes / 936e9 + 5e-6);
  const std::string relu =
      "batch %x \"x\" : f32[64]\n%a = aten.relu(%x) : f32[64]\noutput loss \"\" %a\n";
  EXPECT_DOUBLE_EQ(costs_of(relu, "reference-h2").seconds[OpId(0)], 512 / 936e9 + 5e-6);
}

TEST(Profile, RealDevicesOverlapArithmeticAndTraffic) {
  const DeviceProfile& a100 = device_profile("a100");
  const double half_a_wave = 108.0 * 128 * 128 * 128;  // sums of 128 terms on 108 multiprocessors
  const double arithmetic =
      (kMatmulFlops + half_a_wave) / (a100.flops_per_second * a100.matmul_efficiency);
  const double traffic = kMatmulBytes / a100.bytes_per_second;
  EXPECT_GT(arithmetic, traffic);  // or this test says nothing
  EXPECT_DOUBLE_EQ(costs_of(kMatmul, "a100").seconds[OpId(0)], a100.launch + arithmetic);
}

TEST(Profile, HalfPrecisionRunsOnTensorCores) {
  const std::string text = R"(batch %x "x" : bf16[4096,4096]
%a = aten.mm(%x, %x) : bf16[4096,4096]
output loss "" %a
)";
  const DeviceProfile& h100 = device_profile("h100");
  const double half_a_wave = 132.0 * 128 * 128 * 768;  // longer sums are split
  const double flops = 2.0 * 4096 * 4096 * 4096 + half_a_wave;
  EXPECT_DOUBLE_EQ(costs_of(text, "h100").seconds[OpId(0)],
                   h100.launch + flops / (h100.half_flops_per_second * h100.matmul_efficiency));
}

TEST(Profile, SmallOperatorsCostWhatTheFactorSays) {
  const DeviceProfile& once = device_profile("rtx3090");
  const DeviceProfile twice = with_small_operators(once, 2);
  const Graph graph = parse_graph("magis 1\ndevice cpu\n" + kMatmul, "test");
  const Seconds own = kMatmulFlops / (once.flops_per_second * once.matmul_efficiency);
  const Seconds before = make_cost_table(graph, once).seconds[OpId(0)];
  EXPECT_NEAR(make_cost_table(graph, twice).seconds[OpId(0)], 2 * (before - own) + own, 1e-12);
}

// A slice moves what it shows, an expanded tensor what there is, a repeated operand counts once,
// views cost nothing.
TEST(Profile, TrafficIsWhatAKernelTouches) {
  const std::string text = R"(batch %x "x" : f32[100,10]
batch %y "y" : f32[1,10]
%s = aten.slice.Tensor(%x, 0, 0, 20) : f32[20,10]/4000
%e = aten.expand(%y, [20, 10]) : f32[20,10]{0,1}
%a = aten.add.Tensor(%s, %e) : f32[20,10]
%b = aten.mul.Tensor(%a, %a) : f32[20,10]
output loss "" %b
)";
  const CostTable costs = costs_of(text, "reference");
  EXPECT_DOUBLE_EQ(costs.seconds[OpId(0)], (800 + 40 + 800) / 936e9 + 5e-6);
  EXPECT_DOUBLE_EQ(costs.seconds[OpId(1)], (800 + 800) / 936e9 + 5e-6);
}

TEST(Profile, MeasuredScratchIsRoundedLikeAnyAllocation) {
  const std::string text = R"(batch %x "x" : f32[3]
%a = aten.relu(%x) : f32[3] scratch 600
%b = aten.relu(%a) : f32[3]
output loss "" %b
)";
  EXPECT_EQ(costs_of(text, "cpu").scratch[OpId(0)], 600);
  EXPECT_EQ(costs_of(text, "h200").scratch[OpId(0)], 1024);
  EXPECT_EQ(costs_of(text, "h200").scratch[OpId(1)], 0);
  EXPECT_EQ(costs_of(text, "h200").bytes[TensorId(1)], 512);
  EXPECT_EQ(costs_of(text, "h200").bytes[TensorId(0)], 0);  // an input
  EXPECT_EQ(costs_of(text, "h200").persistent, 512);
  EXPECT_EQ(costs_of(text, "cpu").persistent, 12);
}

TEST(Profile, AnUnknownNameListsTheKnown) {
  try {
    device_profile("rtx9090");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown device profile \"rtx9090\"; choose one of: reference reference-h2 rtx3090 "
        "a100 h100 h200 cpu");
  }
}

// In each of four parts 256 bytes are read and as many written, however large the result is.
TEST(Profile, ChargesAPartThatIsPutInPlaceForWhatItMoves) {
  const Graph graph = parse_graph(R"(magis 1
device cpu
batch %x "['x']" : f32[8,32]
%y = magis.begin("r1", 2, 8, []) : f32[8,32]
%p = magis.part(%x, 0, 1*r1) : f32[2,32]
%f = aten.relu(%p) : f32[2,32]
%n = magis.write_part(%y, 0, 1*r1, %f) : none
%end = magis.end("r1", [%y], []) : none
output aux "y" %y
)",
                                  "test");
  const DeviceProfile& profile = device_profile("reference");
  const CostTable costs = make_cost_table(graph, profile);
  const double once = profile.launch + 2 * 256 / profile.bytes_per_second;
  EXPECT_DOUBLE_EQ(costs.seconds[OpId(2)], 4 * once);
}

}  // namespace
}  // namespace magis
