// The paper's figure 2 with swapping over links that take no time: bytes of whole tensors on the
// host for a while, in parts, and in parts of parts. A tensor of the figure has 32 elements.
#include "support/figure2.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "magis/graph/text.h"
#include "magis/simulate/simulate.h"
#include "magis/transform/fission.h"
#include "support/named_gaps.h"

namespace magis {
namespace {

constexpr Bytes kElement = 4;

std::string x(int i) { return i == 33 ? "m" : "x" + std::to_string(i); }
std::string y(int i) { return "y" + std::to_string(i); }

// Each x is away from after the next one is made until it is read again; `first`: the first that
// may leave.
std::vector<test::NamedGap> all_away(int first) {
  std::vector<test::NamedGap> gaps;
  for (int i = first; i <= 31; ++i) {
    gaps.push_back({y(33 - i), x(i), x(i + 2), y(33 - i)});
  }
  return gaps;
}

Simulation swapped(const Graph& graph, const std::vector<test::NamedGap>& gaps) {
  Decisions decisions = program_order(graph);
  test::add_gaps(graph, gaps, decisions);
  const auto program = lower(graph, decisions);
  if (!program) {
    ADD_FAILURE() << "a gap is not possible";
    return {};
  }
  verify(graph, *program);
  DeviceProfile profile = device_profile("reference");
  profile.link_latency = 0;
  profile.link_bytes_per_second = std::numeric_limits<double>::infinity();
  return simulate(graph, *program, make_cost_table(graph, profile));
}

// x2 ... x32, m and y1 ... `last_y` along their only axis.
FissionRegion chain_region(const Graph& graph, int last_y, int64_t length, int64_t part) {
  FissionRegion region;
  region.length = length;
  region.part = part;
  for (int i = 2; i <= 33; ++i) region.operators.push_back(test::op_named(graph, x(i)));
  for (int i = 1; i <= last_y; ++i) region.operators.push_back(test::op_named(graph, y(i)));
  region.labels.assign(region.operators.size(), {0, 1});
  return region;
}

Graph split(const Graph& graph, const FissionRegion& region) {
  auto made = fission(graph, std::vector{region});
  if (const auto* why = std::get_if<std::string>(&made)) {
    ADD_FAILURE() << *why;
    return graph;
  }
  return std::get<Graph>(std::move(made));
}

TEST(FigureTwo, Swapping) {
  const Graph graph = parse_graph(test::figure2(), "test");
  const Simulation simulation = swapped(graph, all_away(1));
  // An x, the y before and the one that is being made.
  EXPECT_EQ(simulation.transient_peak, 96 * kElement);
  EXPECT_EQ(simulation.host_peak, 31 * 32 * kElement);
  EXPECT_EQ(simulation.bytes_to_host, 31 * 32 * kElement);
  EXPECT_EQ(simulation.bytes_to_device, 31 * 32 * kElement);
  EXPECT_EQ(simulation.exposed, 0);
}

TEST(FigureTwo, FissionAndSwapping) {
  const Graph whole = parse_graph(test::figure2(), "test");
  const Graph graph = split(whole, chain_region(whole, 32, 32, 8));
  const Simulation simulation = swapped(graph, all_away(2));
  // x1 and the result in full, three parts of 8.
  EXPECT_EQ(simulation.transient_peak, 88 * kElement);
  // Parts of 32 bytes, rounded up to 64; every iteration takes the same places.
  EXPECT_EQ(simulation.host_peak, 30 * 64);
  EXPECT_EQ(simulation.bytes_to_host, 30 * 32 * kElement);
  EXPECT_EQ(simulation.exposed, 0);
}

TEST(FigureTwo, NestedFissionAndSwapping) {
  const Graph whole = parse_graph(test::figure2(), "test");
  FissionRegion outer = chain_region(whole, 32, 32, 8);
  outer.children.push_back(chain_region(whole, 31, 8, 4));
  const Graph graph = split(whole, outer);
  std::vector<test::NamedGap> gaps = all_away(2);
  gaps.front() = {"y31_part", "x2", "x4", "y31_part"};  // what the inner loop writes
  const Simulation simulation = swapped(graph, gaps);
  // x1 and the result in full, what the inner loop makes, and three parts of 4.
  EXPECT_EQ(simulation.transient_peak, (32 + 32 + 8 + 3 * 4) * kElement);
  EXPECT_EQ(simulation.bytes_to_host, 30 * 32 * kElement);
  EXPECT_EQ(simulation.exposed, 0);
}

}  // namespace
}  // namespace magis
