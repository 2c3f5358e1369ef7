#include <gtest/gtest.h>

#include <algorithm>

#include "magis/schedule/scheduler.h"
#include "schedule/narrowness.h"
#include "support/nasnet.h"
#include "support/random_decisions.h"
#include "support/scheduling_support.h"

namespace magis {
namespace {

std::vector<NodeId> any_order(const test::Scheduled& step, test::Random& random) {
  std::vector<NodeId> order;
  for (const OpId op : test::random_order(step.graph, random)) order.emplace_back(op.index);
  return order;
}

// By following edges from every node.
int unrelated_by_search(const SchedulingProblem& problem, NodeId node) {
  int related = 0;
  for (const Rows<NodeId>* edges : {&problem.predecessors, &problem.successors}) {
    std::vector<char> seen(problem.size(), 0);
    std::vector<NodeId> pending{node};
    while (!pending.empty()) {
      const NodeId from = pending.back();
      pending.pop_back();
      for (const NodeId to : (*edges)[SchedulingProblem::row(from)]) {
        if (seen[SchedulingProblem::row(to)]) continue;
        seen[SchedulingProblem::row(to)] = 1;
        pending.push_back(to);
        ++related;
      }
    }
  }
  return static_cast<int>(problem.size()) - related - 1;
}

TEST(Narrowness, CountsUnrelatedNodes) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 70);
    test::Random random(seed);
    const PlacedOrder placed(step.problem, any_order(step, random));
    std::vector<int> positions;
    for (int i = 0; i < 64; ++i) {
      positions.push_back(static_cast<int>(random.below(step.problem.size())));
    }
    std::ranges::sort(positions);
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    Narrowness narrowness;
    const auto counts = narrowness.count(placed, positions);
    for (std::size_t q = 0; q < positions.size(); ++q) {
      const NodeId node = placed.order[static_cast<std::size_t>(positions[q])];
      ASSERT_EQ(counts[q], unrelated_by_search(step.problem, node)) << seed;
    }
  }
}

TEST(IncrementalScheduler, NeverWorseAndTheRestStays) {
  int lowered = 0;
  IncrementalScheduler scheduler;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 10 + static_cast<int>(seed % 100));
    test::Random random(seed);
    const std::vector<NodeId> before = any_order(step, random);
    const std::size_t first = random.below(before.size());
    const std::size_t last = std::min(before.size() - 1, first + random.below(12));
    std::vector<NodeId> order = before;
    const std::vector<NodeId> changed{before[last], before[first]};
    const auto [begin, end] = scheduler.reschedule(step.problem, changed, order);
    ASSERT_LE(begin, first);
    ASSERT_GT(end, last);
    ASSERT_TRUE(is_valid_order(step.problem, order)) << seed;
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (k < begin || k >= end) {
        ASSERT_EQ(order[k], before[k]) << seed;
      }
    }
    const Bytes peak = step.simulated_peak(order);
    ASSERT_LE(peak, step.simulated_peak(before)) << seed;
    lowered += peak < step.simulated_peak(before);
  }
  EXPECT_GT(lowered, 40);
}

TEST(IncrementalScheduler, ExtendsWhileNodesGetNarrower) {
  // A chain of 8 beside 4 loose nodes: everything in the chain is unrelated to the loose ones, so
  // the counts do not fall and the interval takes in one node on each side.
  test::MatrixNetwork net;
  int x = net.add_source(test::MatrixNetwork::Kind::input, 4, 4);
  const int loose = x;
  for (int i = 0; i < 8; ++i) x = net.add(test::MatrixNetwork::Kind::relu, {x});
  net.outputs = {x};
  for (int i = 0; i < 4; ++i) {
    net.outputs.push_back(net.add(test::MatrixNetwork::Kind::scale, {loose}));
  }
  const test::Scheduled step(test::to_graph(net));
  std::vector<NodeId> order = program_order(step.problem);
  const std::vector<NodeId> changed{NodeId(4)};
  const auto [begin, end] = IncrementalScheduler().reschedule(step.problem, changed, order);
  EXPECT_EQ(begin, 3u);
  EXPECT_EQ(end, 5u);
}

// Rewrites of random networks: the carried order is valid, and rescheduling it keeps its promise.
TEST(IncrementalScheduler, AfterRewrites) {
  int rescheduled = 0;
  IncrementalScheduler scheduler;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    test::Random random(seed);
    Graph graph = test::to_graph(test::make_nasnet(seed, {.cells = 2, .training = seed % 2 == 0}));
    std::vector<NodeId> order = schedule_fully(test::Scheduled(graph).problem).order;
    for (int round = 0; round < 10; ++round) {
      Rewritten rewritten = rewrite_at_random(graph, 1, random.below(1000));
      ASSERT_EQ(rewritten.rules.size(), 1u);
      const test::Edit edit = test::edit_of(rewritten, order);
      if (edit.changed.empty()) continue;  // of views alone
      ++rescheduled;
      graph = std::move(rewritten.graph);
      const test::Scheduled next(graph);
      order = order_by_rank(next.problem, edit.rank);
      ASSERT_TRUE(is_valid_order(next.problem, order));
      const Bytes carried = next.simulated_peak(order);
      scheduler.reschedule(next.problem, edit.changed, order);
      ASSERT_TRUE(is_valid_order(next.problem, order));
      ASSERT_LE(next.simulated_peak(order), carried);
    }
  }
  EXPECT_GT(rescheduled, 40);
}

TEST(OrderByRank, KeepsAValidRankingAndMendsOthers) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const test::Scheduled step = test::random_scheduled(seed, 40);
    test::Random random(seed);
    const std::vector<NodeId> order = any_order(step, random);
    std::vector<int> rank(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
      rank[SchedulingProblem::row(order[k])] = static_cast<int>(k);
    }
    EXPECT_EQ(order_by_rank(step.problem, rank), order);
    for (int& r : rank) r = static_cast<int>(random.below(10));
    EXPECT_TRUE(is_valid_order(step.problem, order_by_rank(step.problem, rank)));
  }
}

}  // namespace
}  // namespace magis
