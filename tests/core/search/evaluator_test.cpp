// The evaluator against lower() and footprint(): equal to the byte whatever was edited before.
#include "search/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "magis/graph/text.h"
#include "magis/schedule/program.h"
#include "support/random.h"
#include "support/random_decisions.h"
#include "support/random_graph.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

// The profile whose allocations are rounded, so that sizes are not what the types say.
const DeviceProfile& profile() { return device_profile("a100"); }
// One on which the step waits for every copy.
DeviceProfile waiting_profile() {
  DeviceProfile profile = device_profile("cpu");
  profile.host_memory = Bytes{1} << 40;
  return profile;
}

class Subject {
 public:
  explicit Subject(Graph source, const DeviceProfile& device = profile())
      : graph(std::move(source)),
        costs(make_cost_table(graph, device)),
        problem(graph, costs),
        evaluator(problem) {}

  // The evaluator's present state, lowered and simulated from scratch.
  void expect_exact() const {
    const Decisions decisions = evaluator.decisions();
    const std::optional<Program> program = lower(graph, decisions);
    ASSERT_EQ(program.has_value(), evaluator.feasible());
    if (!program) return;
    const Footprint expected = footprint(graph, *program, costs);
    ASSERT_EQ(evaluator.peak(), expected.transient_peak);
    // Every run is rounded to a picosecond.
    const double rounding = 1e-12 * static_cast<double>(program->statements.size());
    const Seconds counted =
        costs.copies_overlap ? expected.seconds - expected.exposed : expected.seconds;
    ASSERT_NEAR(to_seconds(evaluator.time()), counted, rounding);
  }

  // Which chains look for which tensors, found by looking at all chains.
  void expect_needs() const {
    if (!evaluator.feasible()) return;
    for (std::size_t e = 0; e < problem.edge_op.size(); ++e) {
      const EdgeId edge(e);
      const int use = evaluator.use_position(edge);
      int first = use;
      int last = use;
      for (int k = use - 1; k > evaluator.previous_position(edge); --k) {
        if (!looks_for(k, problem.edge_tensor[edge])) continue;
        first = k;
        if (last == use) last = k;
      }
      ASSERT_EQ(evaluator.first_need(edge, evaluator.previous_position(edge) + 1), first);
      ASSERT_EQ(evaluator.first_need(edge, first + 1), next_need(edge, first + 1));
      ASSERT_EQ(evaluator.last_need(edge, use), last);
    }
  }

  Graph graph;
  CostTable costs;
  Problem problem;
  Evaluator evaluator;

 private:
  bool looks_for(int position, TensorId tensor) const {
    return std::ranges::any_of(evaluator.chain_at(position), [&](OpId op) {
      return std::ranges::any_of(problem.operands[Problem::row(op)],
                                 [&](const auto& operand) { return operand.tensor == tensor; });
    });
  }
  int next_need(EdgeId edge, int from) const {
    const int use = evaluator.use_position(edge);
    while (from < use && !looks_for(from, problem.edge_tensor[edge])) ++from;
    return std::min(from, use);
  }
};

void gap_at_random(Subject& subject, test::Random& random) {
  Evaluator& evaluator = subject.evaluator;
  const EdgeId edge(static_cast<std::size_t>(random.below(subject.problem.edge_op.size())));
  if (!subject.problem.swappable[edge]) return;
  const int begin = evaluator.previous_position(edge);
  const auto length = static_cast<uint64_t>(evaluator.use_position(edge) - begin);
  int release = begin + 1 + static_cast<int>(random.below(length));
  int load = begin + 1 + static_cast<int>(random.below(length));
  if (release > load) std::swap(release, load);
  const Gap gap{edge, evaluator.op_at(release), evaluator.op_at(load)};
  if (evaluator.may_have_gap(gap)) evaluator.set_gap(gap);
}

// An order with gaps does not change.
void fill_all_gaps(Evaluator& evaluator) {
  for (const Gap& gap : evaluator.decisions().gaps) evaluator.set_mode(gap.use, Mode::keep);
}

void edit_at_random(Subject& subject, test::Random& random) {
  Evaluator& evaluator = subject.evaluator;
  const auto count = static_cast<uint64_t>(evaluator.op_count());
  if (random.below(4) == 0) {
    gap_at_random(subject, random);
  } else if (random.below(2) == 0) {
    const EdgeId edge(static_cast<std::size_t>(random.below(subject.problem.edge_op.size())));
    if (!subject.problem.droppable[edge]) return;
    const Mode late = Mode::late(OpId(static_cast<std::size_t>(random.below(count))));
    const Mode modes[] = {
        Mode::keep, Mode::keep, Mode::recompute, Mode::recompute, Mode::recompute_anew, Mode::swap,
        late,       late};
    evaluator.set_mode(edge, modes[random.below(std::size(modes))]);
  } else {
    if (random.below(8) == 0) fill_all_gaps(evaluator);
    const int from = static_cast<int>(random.below(count));
    const int to = from + static_cast<int>(random.below(31)) - 15;
    evaluator.move(from, std::clamp(to, 0, evaluator.op_count() - 1));
  }
}

TEST(Evaluator, EqualsLoweringFromScratch) {
  test::Random random(11);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Subject subject(test::make_random_graph(seed, 10 + static_cast<int>(seed) * 3));
    for (int i = 0; i < 25; ++i) {
      subject.evaluator.load(
          test::random_decisions(subject.graph, random, static_cast<int>(random.below(60))));
      subject.expect_exact();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", decisions " << i;
    }
  }
}

TEST(Evaluator, StaysExactUnderEdits) {
  test::Random random(12);
  for (uint64_t seed = 100; seed < 130; ++seed) {
    Subject subject(test::make_random_graph(seed, 20 + static_cast<int>(seed % 7) * 10));
    subject.evaluator.load(program_order(subject.graph));
    for (int i = 0; i < 200; ++i) {
      edit_at_random(subject, random);
      subject.expect_exact();
      subject.expect_needs();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", edit " << i;
    }
  }
}

TEST(Evaluator, KnowsWhichChainsLookForATensor) {
  test::Random random(17);
  Subject subject(parse_graph(test::transformer_graph_text({.layers = 2}), "transformer"));
  Evaluator& evaluator = subject.evaluator;
  evaluator.load(program_order(subject.graph));
  int checked = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t mark = evaluator.mark();
    for (int k = 0; k < 3; ++k) edit_at_random(subject, random);
    if (random.below(3) == 0 || !evaluator.feasible()) evaluator.undo(mark);
    if (evaluator.plain() || !evaluator.feasible()) continue;
    subject.expect_needs();
    if (HasFatalFailure()) FAIL() << "edit " << i;
    ++checked;
  }
  EXPECT_GT(checked, 500);
}

TEST(Evaluator, CountsCopiesThatTheStepWaitsFor) {
  test::Random random(16);
  for (uint64_t seed = 300; seed < 320; ++seed) {
    Subject subject(test::make_random_graph(seed, 30), waiting_profile());
    subject.evaluator.load(program_order(subject.graph));
    for (int i = 0; i < 150; ++i) {
      edit_at_random(subject, random);
      subject.expect_exact();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", edit " << i;
    }
  }
}

TEST(Evaluator, StaysExactUnderEditsOfATransformer) {
  test::Random random(13);
  Subject subject(parse_graph(test::transformer_graph_text({.layers = 3}), "transformer"));
  subject.evaluator.load(program_order(subject.graph));
  for (int i = 0; i < 1500; ++i) {
    edit_at_random(subject, random);
    if (i % 5 == 0) subject.expect_exact();
    if (HasFatalFailure()) FAIL() << "edit " << i;
  }
}

TEST(Evaluator, UndoesWhatWasDoneSinceTheMark) {
  test::Random random(14);
  for (uint64_t seed = 200; seed < 230; ++seed) {
    Subject subject(test::make_random_graph(seed, 40));
    Evaluator& evaluator = subject.evaluator;
    evaluator.load(program_order(subject.graph));
    for (int i = 0; i < 40; ++i) {
      edit_at_random(subject, random);
      const Decisions decisions = evaluator.decisions();
      const uint64_t hash = evaluator.hash();
      const Evaluator::Usage usage = evaluator.usage(1000);
      const Picoseconds time = evaluator.time();
      const std::size_t mark = evaluator.mark();
      for (int j = 0; j < 5; ++j) edit_at_random(subject, random);
      evaluator.undo(mark);
      ASSERT_EQ(evaluator.decisions(), decisions);
      ASSERT_EQ(evaluator.hash(), hash);
      ASSERT_EQ(evaluator.time(), time);
      ASSERT_EQ(evaluator.usage(1000).peak, usage.peak);
      ASSERT_EQ(evaluator.usage(1000).overflow, usage.overflow);
      subject.expect_exact();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", round " << i;
    }
  }
}

TEST(Evaluator, HashTellsSchedulesApart) {
  test::Random random(15);
  Subject subject(test::make_random_graph(7, 60));
  subject.evaluator.load(program_order(subject.graph));
  std::set<uint64_t> hashes;
  std::vector<Decisions> seen;
  for (int i = 0; i < 300; ++i) {
    edit_at_random(subject, random);
    const Decisions decisions = subject.evaluator.decisions();
    const bool known = std::ranges::find(seen, decisions) != seen.end();
    EXPECT_EQ(hashes.insert(subject.evaluator.hash()).second, !known);
    if (!known) seen.push_back(decisions);
  }
}

// Five matrices of 4,000,000 bytes; mm has no in-place form.
//   keep          border before the last: a, c.  Peak where e is made: a, d, e = 3 matrices.
//   recompute a   d alone crosses; a is made again, then e: a, d, e = 3 matrices; where c is made:
//   b, c = 2.
constexpr char kChain[] = R"(magis 1
device cpu

batch %x "x" : f32[1000,1000]

%a = aten.mm(%x, %x) : f32[1000,1000]
%b = aten.mm(%a, %x) : f32[1000,1000]
%c = aten.mm(%b, %x) : f32[1000,1000]
%d = aten.mm(%c, %x) : f32[1000,1000]
%e = aten.mm(%d, %a) : f32[1000,1000]

output loss "" %e
)";

TEST(Evaluator, SaysWhatIsHeldFromWhere) {
  constexpr Bytes kMatrix = 4'000'000;
  const Graph graph = parse_graph(kChain, "chain");
  const CostTable costs = make_cost_table(graph, device_profile("cpu"));
  const Problem problem(graph, costs);
  Evaluator evaluator(problem);
  evaluator.load(program_order(graph));
  const EdgeId last_a(graph.edge_count() - 1);
  ASSERT_EQ(graph.edge_op(last_a), OpId(4));
  EXPECT_EQ(evaluator.held_from(last_a), 1);      // from b, its previous use
  EXPECT_EQ(evaluator.bytes_at(2), 3 * kMatrix);  // a, b, c
  EXPECT_EQ(evaluator.peak_position(), 2);
  EXPECT_EQ(evaluator.usage(2 * kMatrix).overflow,
            3 * kMatrix);  // c, d, e: one matrix too many each

  const Evaluator::ChainCost cost = evaluator.chain_cost(last_a);
  EXPECT_TRUE(cost.feasible);
  EXPECT_EQ(cost.operators, 1);
  const Picoseconds before = evaluator.time();
  evaluator.set_mode(last_a, Mode::recompute);
  EXPECT_EQ(evaluator.time(), before + cost.time);
  EXPECT_EQ(evaluator.held_from(last_a), 4);  // made for it
  EXPECT_EQ(evaluator.bytes_at(2), 2 * kMatrix);
  EXPECT_EQ(evaluator.bytes_at(4), 3 * kMatrix);
  EXPECT_EQ(evaluator.recomputed_operators(), 1);
  ASSERT_EQ(evaluator.chain_at(4).size(), 1U);
  EXPECT_EQ(evaluator.chain_at(4)[0], OpId(0));
}

}  // namespace
}  // namespace magis
