// Random schedules with gaps, held against the definition of their bytes, times and host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "magis/schedule/host_pool.h"
#include "magis/simulate/simulate.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

using Kind = Statement::Kind;

std::vector<CopyRef> named(const Graph& graph, const Statement& statement) {
  std::vector<CopyRef> copies = statement.copies;
  if (statement.kind != Kind::run) return copies;
  const auto reads = graph.reads(statement.op);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    copies.push_back({reads[i], statement.operand_copies[i]});
  }
  for (TensorId made : graph.makes(statement.op)) copies.push_back({made, statement.copy});
  return copies;
}

struct Stretch {  // of statements
  std::size_t first = 0;
  std::size_t last = 0;
};

// From the first to the last statement that names a copy, frees apart; the end for outputs.
std::map<CopyRef, Stretch> lives(const Graph& graph, const Program& program) {
  std::map<CopyRef, Stretch> found;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    if (program.statements[s].kind == Kind::free) continue;
    for (const CopyRef& copy : named(graph, program.statements[s])) {
      const bool stays = graph.tensor(copy.tensor).is_output && copy.copy == 0;
      Stretch& life = found.try_emplace(copy, Stretch{s, s}).first->second;
      life.last = stays ? program.statements.size() : s;
    }
  }
  return found;
}

// What is live while each statement executes, quadratically, from what it names alone.
std::vector<Bytes> live_bytes(const Graph& graph, const Program& program, const CostTable& costs) {
  const std::map<CopyRef, Stretch> all = lives(graph, program);
  std::vector<Bytes> bytes(program.statements.size(), 0);
  for (std::size_t s = 0; s < bytes.size(); ++s) {
    const Statement& statement = program.statements[s];
    if (statement.kind == Kind::free) continue;
    for (const auto& [copy, life] : all) {
      if (life.first <= s && s <= life.last) bytes[s] += costs.bytes[copy.tensor];
    }
    if (statement.kind != Kind::run) continue;
    bytes[s] += costs.scratch[statement.op];
    if (statement.over >= 0) {
      bytes[s] -= costs.bytes[graph.reads(statement.op)[static_cast<std::size_t>(statement.over)]];
    }
  }
  return bytes;
}

// From the store to the await of the last load.
std::map<TensorId, Stretch> on_host(const Program& program) {
  std::map<TensorId, Stretch> stays;
  std::map<TensorId, int> last_load;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    for (const CopyRef& copy : program.statements[s].copies) {
      if (program.statements[s].kind == Kind::store) stays[copy.tensor] = {s, s};
      if (program.statements[s].kind == Kind::load) last_load[copy.tensor] = copy.copy;
    }
  }
  for (auto& [tensor, stay] : stays) {
    for (std::size_t s = program.statements.size(); s-- > stay.first;) {
      if (program.statements[s].kind != Kind::load) continue;
      if (program.statements[s].copies[0] != CopyRef{tensor, last_load.at(tensor)}) continue;
      while (
          program.statements[s].kind != Kind::await ||
          std::ranges::find(program.statements[s].copies, CopyRef{tensor, last_load.at(tensor)}) ==
              program.statements[s].copies.end()) {
        ++s;
      }
      stay.last = s;
      break;
    }
  }
  return stays;
}

void expect_pool(const Graph& graph, const Program& program) {
  const HostPool pool = plan_host_pool(graph, program);
  const std::map<TensorId, Stretch> stays = on_host(program);
  const auto rounded = [&](TensorId t) { return (graph.tensor(t).bytes + 63) / 64 * 64; };
  Bytes sum = 0;
  Bytes most = 0;
  for (const auto& [tensor, stay] : stays) {
    sum += rounded(tensor);
    EXPECT_GE(pool.offsets[tensor], 0);
    EXPECT_EQ(pool.offsets[tensor] % 64, 0);
    EXPECT_LE(pool.offsets[tensor] + rounded(tensor), pool.bytes);
    Bytes together = 0;  // when this one is stored
    for (const auto& [other, its] : stays) {
      if (its.first <= stay.first && stay.first <= its.last) together += rounded(other);
      if (tensor == other || its.last < stay.first || stay.last < its.first) continue;
      EXPECT_TRUE(pool.offsets[tensor] + rounded(tensor) <= pool.offsets[other] ||
                  pool.offsets[other] + rounded(other) <= pool.offsets[tensor])
          << "two tensors share a place in\n"
          << to_text(graph, program);
    }
    most = std::max(most, together);
  }
  EXPECT_LE(most, pool.bytes);
  EXPECT_LE(pool.bytes, sum);
  // Places of one size leave no gaps between them.
  const bool alike = std::ranges::all_of(stays, [&](const auto& stay) {
    return rounded(stay.first) == rounded(stays.begin()->first);
  });
  if (alike) {
    EXPECT_EQ(pool.bytes, most);
  }
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    if (!stays.contains(TensorId(t))) {
      EXPECT_EQ(pool.offsets[TensorId(t)], kNoHostSlot);
    }
  }
}

// Each engine does one thing after another; nothing begins before it may, and only awaits wait.
void expect_engines(const Program& program, const CostTable& costs, const Simulation& simulation) {
  std::map<TensorId, Seconds> stored;
  Seconds to_host = 0;
  Seconds to_device = 0;
  for (const CopyPoint& point : simulation.copies) {
    const Statement& statement = program.statements[static_cast<std::size_t>(point.statement)];
    const TensorId tensor = statement.copies[0].tensor;
    EXPECT_NEAR(point.end - point.start, costs.copy_seconds[tensor], 1e-12);
    const bool store = statement.kind == Kind::store;
    Seconds& engine = store ? to_host : to_device;
    EXPECT_GE(point.start, engine);
    engine = point.end;
    if (store) {
      stored[tensor] = point.end;
    } else {
      EXPECT_GE(point.start, stored.at(tensor));
    }
    for (const TimelinePoint& run : simulation.timeline) {
      if (run.statement < point.statement) {
        EXPECT_LE(run.end, point.start);
      }
    }
  }
  Seconds computing = 0;
  Seconds now = 0;
  for (const TimelinePoint& run : simulation.timeline) {
    EXPECT_GE(run.start, now);
    now = run.end;
    computing += run.end - run.start;
  }
  EXPECT_NEAR(simulation.seconds, computing + simulation.exposed, 1e-9);
}

class RandomSwaps : public testing::TestWithParam<int> {};

TEST_P(RandomSwaps, SimulateAsDefined) {
  const auto seed = static_cast<uint64_t>(GetParam());
  test::Random random(seed);
  const Graph graph = test::make_random_graph(seed, 5 + static_cast<int>(random.below(30)));
  const CostTable costs = make_cost_table(graph, device_profile(seed % 2 == 0 ? "cpu" : "a100"));
  for (const int percent : {10, 40, 90}) {
    Decisions decisions = test::random_decisions(graph, random, percent / 3);
    test::add_random_gaps(graph, random, percent, decisions);
    const Program program = lower(graph, decisions).value();
    ASSERT_NO_THROW(verify(graph, program)) << to_text(graph, program);
    const Simulation simulation = simulate(graph, program, costs);
    const std::vector<Bytes> live = live_bytes(graph, program, costs);
    for (const TimelinePoint& point : simulation.timeline) {
      ASSERT_EQ(point.live, live[static_cast<std::size_t>(point.statement)])
          << "statement " << point.statement << " of\n"
          << to_text(graph, program);
    }
    EXPECT_EQ(simulation.transient_peak, *std::ranges::max_element(live));
    const Footprint fast = footprint(graph, program, costs);
    EXPECT_EQ(fast.transient_peak, simulation.transient_peak);
    EXPECT_EQ(fast.seconds, simulation.seconds);
    EXPECT_EQ(fast.exposed, simulation.exposed);
    EXPECT_EQ(fast.host_peak, simulation.host_peak);
    expect_pool(graph, program);
    expect_engines(program, costs, simulation);
    EXPECT_EQ(parse_plan(to_text(graph, program), "again").program, program);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSwaps, testing::Range(0, 120));

// If hardly anything left, the tests above would say little.
TEST(RandomSwaps, SwapALot) {
  std::map<Kind, int> statements;
  int gaps = 0;
  int copies_stored = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    test::Random random(seed);
    const Graph graph = test::make_random_graph(seed, 25);
    Decisions decisions = test::random_decisions(graph, random, 20);
    test::add_random_gaps(graph, random, 60, decisions);
    gaps += static_cast<int>(decisions.gaps.size());
    for (const Statement& statement : lower(graph, decisions).value().statements) {
      ++statements[statement.kind];
      copies_stored += statement.kind == Kind::store && statement.copies[0].copy > 0;
    }
  }
  EXPECT_EQ(statements[Kind::load], gaps);
  EXPECT_GT(gaps, 60 * 5);
  EXPECT_GT(gaps, statements[Kind::store] + 20);  // some leave more than once
  EXPECT_GT(copies_stored, 5);
}

}  // namespace
}  // namespace magis
