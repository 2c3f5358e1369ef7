// Lowering and simulating random schedules of random graphs, held against their definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "magis/base/error.h"
#include "magis/simulate/simulate.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"

namespace magis {
namespace {

using test::Random;

// The life of one storage: from the run that makes its first tensor to the last run that reads it.
// Found from the runs alone, quadratically: neither frees nor running counts are looked at.
struct Storage {
  Bytes bytes;
  std::size_t first, last;
};

bool reads(const Graph& graph, const Statement& run, CopyRef copy) {
  const auto tensors = graph.reads(run.op);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (copy == CopyRef{tensors[i], run.operand_copies[i]}) return true;
  }
  return false;
}

std::vector<Statement> runs_of(const Program& program) {
  std::vector<Statement> runs;
  for (const Statement& statement : program.statements) {
    if (statement.kind == Statement::Kind::run) runs.push_back(statement);
  }
  return runs;
}

// The last run that reads or makes the copy; the end for an output.
std::size_t last_use(const Graph& graph, const std::vector<Statement>& runs, std::size_t made,
                     CopyRef copy) {
  if (graph.tensor(copy.tensor).is_output && copy.copy == 0) return runs.size();
  std::size_t last = made;
  for (std::size_t s = made + 1; s < runs.size(); ++s) {
    if (reads(graph, runs[s], copy)) last = s;
  }
  return last;
}

CopyRef operand(const Graph& graph, const Statement& run, std::size_t position) {
  return {graph.reads(run.op)[position], run.operand_copies[position]};
}

std::vector<Storage> storages(const Graph& graph, const std::vector<Statement>& runs,
                              const CostTable& costs) {
  std::vector<Storage> all;
  std::vector<CopyRef> held_by;  // the copy that holds all[i] last
  for (std::size_t s = 0; s < runs.size(); ++s) {
    const auto made = graph.makes(runs[s].op);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const CopyRef copy{made[i], runs[s].copy};
      const std::size_t last = last_use(graph, runs, s, copy);
      if (i == 0 && runs[s].over >= 0) {
        const CopyRef old = operand(graph, runs[s], static_cast<std::size_t>(runs[s].over));
        const auto found = std::ranges::find(held_by, old) - held_by.begin();
        EXPECT_EQ(all[static_cast<std::size_t>(found)].last, s) << "overwrites what is read later";
        all[static_cast<std::size_t>(found)].last = last;
        held_by[static_cast<std::size_t>(found)] = copy;
      } else {
        all.push_back({costs.bytes[copy.tensor], s, last});
        held_by.push_back(copy);
      }
    }
  }
  return all;
}

struct Figures {
  std::vector<Bytes> live;
  Seconds seconds = 0;
};

Figures plain_simulation(const Graph& graph, const Program& program, const CostTable& costs) {
  const std::vector<Statement> runs = runs_of(program);
  const std::vector<Storage> all = storages(graph, runs, costs);
  Figures figures;
  for (std::size_t s = 0; s < runs.size(); ++s) {
    Bytes live = costs.scratch[runs[s].op];
    for (const Storage& storage : all) {
      if (storage.first <= s && s <= storage.last) live += storage.bytes;
    }
    figures.live.push_back(live);
    figures.seconds += costs.seconds[runs[s].op];
  }
  return figures;
}

// An operator runs over an operand exactly if the graph allows it and the operand dies there.
void expect_in_place_wherever_possible(const Graph& graph, const Program& program) {
  const std::vector<Statement> runs = runs_of(program);
  for (std::size_t s = 0; s < runs.size(); ++s) {
    int expected = -1;
    for (const Graph::InPlaceChoice& choice : graph.in_place_choices(runs[s].op)) {
      const int position = choice.edge.index - graph.first_edge(runs[s].op).index;
      const CopyRef copy = operand(graph, runs[s], static_cast<std::size_t>(position));
      const Tensor& tensor = graph.tensor(copy.tensor);
      if (tensor.is_input || tensor.is_output) continue;
      if (last_use(graph, runs, s, copy) != s) continue;
      expected = position;
      break;
    }
    EXPECT_EQ(runs[s].over, expected);
  }
}

class RandomSchedules : public testing::TestWithParam<int> {};

TEST_P(RandomSchedules, SimulateAsDefined) {
  const auto seed = static_cast<uint64_t>(GetParam());
  Random random(seed);
  const Graph graph = test::make_random_graph(seed, 5 + static_cast<int>(random.below(40)));
  const CostTable costs = make_cost_table(graph, device_profile(seed % 2 == 0 ? "cpu" : "a100"));
  const LowerBound bound = lower_bound(graph, costs);
  for (const int percent : {0, 10, 40, 90}) {
    const auto program = lower(graph, test::random_decisions(graph, random, percent));
    ASSERT_TRUE(program.has_value());
    ASSERT_NO_THROW(verify(graph, *program)) << to_text(graph, *program);
    const Simulation simulation = simulate(graph, *program, costs);
    const Figures plain = plain_simulation(graph, *program, costs);
    ASSERT_EQ(simulation.timeline.size(), plain.live.size());
    for (std::size_t s = 0; s < plain.live.size(); ++s) {
      ASSERT_EQ(simulation.timeline[s].live, plain.live[s]) << "run " << s << " of\n"
                                                            << to_text(graph, *program);
    }
    EXPECT_EQ(simulation.transient_peak, *std::ranges::max_element(plain.live));
    EXPECT_EQ(simulation.seconds, plain.seconds);
    EXPECT_GE(simulation.peak(), bound.bytes) << to_text(graph, *program);
    const Footprint fast = footprint(graph, *program, costs);
    EXPECT_EQ(fast.transient_peak, simulation.transient_peak);
    EXPECT_EQ(fast.seconds, simulation.seconds);
    Bytes hot =
        costs.scratch[program->statements[static_cast<std::size_t>(simulation.peak_statement)].op];
    for (const CopyRef& copy : simulation.hotspots) hot += costs.bytes[copy.tensor];
    EXPECT_EQ(hot, simulation.transient_peak);
    expect_in_place_wherever_possible(graph, *program);
  }
}

TEST_P(RandomSchedules, PlansSurviveTheirText) {
  const auto seed = static_cast<uint64_t>(GetParam());
  Random random(seed);
  const Graph graph = test::make_random_graph(seed, 30);
  const auto program = lower(graph, test::random_decisions(graph, random, 20));
  ASSERT_TRUE(program.has_value());
  const std::string text = to_text(graph, *program);
  const PlanText plan = parse_plan(text, "test");
  EXPECT_EQ(plan.program, *program);
  EXPECT_EQ(to_text(plan.graph, plan.program), text);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedules, testing::Range(0, 60));

// If hardly anything ran again, the tests above would say little.
TEST(RandomSchedules, RecomputeALot) {
  int copies = 0;
  int copies_in_place = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Graph graph = test::make_random_graph(seed, 30);
    const Program program = lower(graph, test::random_decisions(graph, random, 30)).value();
    for (const Statement& run : runs_of(program)) {
      copies += run.copy != 0;
      copies_in_place += run.copy != 0 && run.over >= 0;
    }
  }
  EXPECT_GT(copies, 60 * 3);
  EXPECT_GT(copies_in_place, 20);
}

}  // namespace
}  // namespace magis
