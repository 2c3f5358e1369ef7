// How far from the optimum: against all orders and all modes of small graphs, and against optimal
// checkpointing of chains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "magis/graph/text.h"
#include "magis/search/optimize.h"
#include "search/evaluator.h"
#include "search/objective.h"
#include "support/random_graph.h"

namespace magis {
namespace {

OptimizeResult run(const Graph& graph, const CostTable& costs, const Limit& limit,
                   int64_t states = 100'000) {
  OptimizeOptions options;
  options.limit = limit;
  options.state_budget = states;
  options.time_budget = 1e9;
  return optimize_schedule(graph, costs, options);
}

// Calls visit(order) for every order that respects precedence, at most `most` times.
void for_each_order(const Graph& graph, int most, const std::function<void()>& visit,
                    std::vector<OpId>& order) {
  std::vector<bool> placed(graph.op_count(), false);
  int count = 0;
  const std::function<void()> extend = [&] {
    if (count >= most) return;
    if (order.size() == graph.op_count()) {
      ++count;
      visit();
      return;
    }
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      const auto ready = [&](OpId p) { return placed[static_cast<std::size_t>(p.index)]; };
      if (placed[o] || !std::ranges::all_of(graph.predecessors(OpId(o)), ready)) continue;
      placed[o] = true;
      order.emplace_back(o);
      extend();
      order.pop_back();
      placed[o] = false;
    }
  };
  extend();
}

std::vector<EdgeId> droppable_edges(const Problem& problem) {
  std::vector<EdgeId> edges;
  for (std::size_t e = 0; e < problem.droppable.size(); ++e) {
    if (problem.droppable[EdgeId(e)]) edges.push_back(EdgeId(e));
  }
  return edges;
}

test::RandomGraphOptions small_options() {
  test::RandomGraphOptions options;
  options.mutating = false;
  return options;
}

TEST(Exactness, ReorderingAloneAgainstAllOrders) {
  int graphs = 0;
  int optimal = 0;
  double worst = 1;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = test::make_random_graph(seed, 8, small_options());
    if (graph.op_count() > 11) continue;
    const CostTable costs = make_cost_table(graph, device_profile("cpu"));
    const Problem problem(graph, costs);
    Evaluator evaluator(problem);
    Decisions decisions = program_order(graph);
    const Footprint program = evaluator.evaluate(decisions);
    Bytes best = program.transient_peak;
    constexpr int kMostOrders = 60'000;
    int orders = 0;
    decisions.order.clear();
    for_each_order(
        graph, kMostOrders,
        [&] {
          ++orders;
          best = std::min(best, evaluator.evaluate(decisions).transient_peak);
        },
        decisions.order);
    if (orders == kMostOrders) continue;
    // No time to spare: nothing can be recomputed.
    const OptimizeResult result =
        run(graph, costs, {.kind = Limit::Kind::latency, .seconds = program.seconds});
    EXPECT_EQ(result.recomputed, 0);
    EXPECT_GE(result.found.transient_peak, best);
    ++graphs;
    if (result.found.transient_peak == best) ++optimal;
    worst = std::max(worst,
                     static_cast<double>(result.found.transient_peak) / static_cast<double>(best));
  }
  std::printf("reordering: optimal for %d of %d graphs, at worst %.3f times the optimum\n", optimal,
              graphs, worst);
  EXPECT_GE(graphs, 30);
  EXPECT_GE(optimal, graphs * 9 / 10);
  EXPECT_LE(worst, 1.25);
}

// Peak -> least time over all orders and modes.
std::map<Bytes, Picoseconds> frontier(const Graph& graph, const Problem& problem,
                                      double most_states) {
  const std::vector<EdgeId> edges = droppable_edges(problem);
  double states = 1;
  for (std::size_t i = 0; i < edges.size(); ++i) states *= 3;
  std::map<Bytes, Picoseconds> all;
  Decisions decisions = program_order(graph);
  decisions.order.clear();
  int orders = 0;
  for_each_order(
      graph, 1000, [&] { ++orders; }, decisions.order);
  if (states * orders > most_states) return {};
  Evaluator evaluator(problem);
  for_each_order(
      graph, 1000,
      [&] {
        decisions.modes = IdMap<EdgeId, Mode>(graph.edge_count(), Mode::keep);
        evaluator.load(decisions);
        const std::function<void(std::size_t)> choose = [&](std::size_t i) {
          if (i == edges.size()) {
            if (!evaluator.feasible()) return;
            const auto [entry, fresh] = all.try_emplace(evaluator.peak(), evaluator.time());
            if (!fresh) entry->second = std::min(entry->second, evaluator.time());
            return;
          }
          for (const Mode mode : {Mode::keep, Mode::recompute, Mode::recompute_anew}) {
            const std::size_t mark = evaluator.mark();
            evaluator.set_mode(edges[i], mode);
            choose(i + 1);
            evaluator.undo(mark);
          }
        };
        choose(0);
      },
      decisions.order);
  std::map<Bytes, Picoseconds> best;
  Picoseconds least = Objective::kNoLimit;
  for (const auto& [peak, time] : all) {
    if (time >= least) continue;
    least = time;
    best[peak] = time;
  }
  return best;
}

TEST(Exactness, AllOrdersAndModesOfSmallGraphs) {
  int points = 0;
  int optimal = 0;
  double worst = 1;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Graph graph = test::make_random_graph(seed, 6, small_options());
    const CostTable costs = make_cost_table(graph, device_profile("cpu"));
    const Problem problem(graph, costs);
    for (const auto& [peak, time] : frontier(graph, problem, 2e5)) {
      const OptimizeResult result =
          run(graph, costs, {.kind = Limit::Kind::memory, .bytes = costs.persistent + peak});
      const double ratio = result.met ? result.found.seconds / to_seconds(time) : 1e9;
      EXPECT_GE(ratio, 1 - 1e-6) << "seed " << seed;  // none is better than all
      ++points;
      if (ratio < 1 + 1e-6) ++optimal;
      worst = std::max(worst, ratio);
    }
  }
  std::printf("orders and modes: optimal at %d of %d points, at worst %.3f times the least time\n",
              optimal, points, worst);
  EXPECT_GE(points, 50);
  EXPECT_GE(optimal, points * 95 / 100);
  EXPECT_LE(worst, 1.1);
}

// Every trade that there is, but for the two per cent of memory within which one is as good as
// another.
TEST(Exactness, TheFrontierOfSmallGraphs) {
  int points = 0;
  int found = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Graph graph = test::make_random_graph(seed, 6, small_options());
    const DeviceProfile& profile = device_profile("cpu");
    const CostTable costs = make_cost_table(graph, profile);
    const Problem problem(graph, costs);
    const std::map<Bytes, Picoseconds> optimal = frontier(graph, problem, 2e5);
    if (optimal.empty()) continue;
    OptimizeOptions options;
    options.fission = false;
    options.rewrite = false;
    options.host_memory = 0;
    options.state_budget = 100'000;
    options.time_budget = 1e9;
    const std::vector<OptimizeResult> plans = find_frontier(graph, profile, options);
    for (const auto& [peak, time] : optimal) {
      const double most_bytes = 1.0203 * static_cast<double>(peak) + 1;
      const double most_seconds = to_seconds(time) * (1 + 1e-6);
      ++points;
      found += std::ranges::any_of(plans, [&](const OptimizeResult& plan) {
        return static_cast<double>(plan.found.transient_peak) <= most_bytes &&
               plan.found.seconds <= most_seconds;
      });
    }
    for (const OptimizeResult& plan : plans) {  // none is better than all
      const auto entry = std::prev(optimal.upper_bound(plan.found.transient_peak));
      EXPECT_GE(plan.found.seconds, to_seconds(entry->second) * (1 - 1e-6)) << "seed " << seed;
    }
  }
  std::printf("frontier: %d of %d points\n", found, points);
  EXPECT_GE(points, 50);
  EXPECT_GE(found, points * 95 / 100);
}

// ---- chains

// x_i = x_{i-1} W forward; g_n from x_n; g_{i-1} from g_i and x_{i-1} backward. Every operator
// takes the same time, every matrix the same memory; x_0 and W are inputs.
std::string chain_text(int length) {
  std::ostringstream text;
  text
      << "magis 1\ndevice cpu\n\nbatch %x0 \"x\" : f32[256,256]\nparam %w \"w\" : f32[256,256]\n\n";
  for (int i = 1; i <= length; ++i) {
    text << "%x" << i << " = aten.mm(%x" << i - 1 << ", %w) : f32[256,256]\n";
  }
  text << "%g" << length << " = aten.mm(%x" << length << ", %w) : f32[256,256] backward\n";
  for (int i = length; i >= 1; --i) {
    text << "%g" << i - 1 << " = aten.mm(%g" << i << ", %x" << i - 1
         << ") : f32[256,256] backward\n";
  }
  text << "\noutput loss \"\" %g0\n";
  return text.str();
}

// The fewest operator runs for a chain in `slots` matrices, by dynamic programming over checkpoints
// kept during each sweep (as in Griewank and Walther's Revolve, here with the memory of gradients
// and of forward steps counted as the simulator does). Copies may be dropped and made again any
// number of times.
class Checkpointing {
 public:
  static constexpr int kImpossible = 1'000'000;

  explicit Checkpointing(int length, int slots)
      : length_(length),
        back_(static_cast<std::size_t>(length + 1),
              std::vector<int>(static_cast<std::size_t>(slots + 1), kImpossible)) {
    for (int l = 1; l <= length; ++l) {
      for (int m = 0; m <= slots; ++m) back_[index(l)][index(m)] = backward(l, m);
    }
    std::vector<std::vector<int>> whole(
        static_cast<std::size_t>(length + 1),
        std::vector<int>(static_cast<std::size_t>(slots + 1), kImpossible));
    for (int m = 1; m <= slots; ++m) whole[0][index(m)] = 1;  // g_n next to x_n
    for (int l = 1; l <= length; ++l) {
      for (int m = 1; m <= slots; ++m) {
        for (int k = 1; k <= l; ++k) {  // forward to x_k, which is kept
          if (m < forward_slots(k)) continue;
          whole[index(l)][index(m)] =
              std::min(whole[index(l)][index(m)],
                       k + whole[index(l - k)][index(m - 1)] + back_[index(k)][index(m)]);
        }
      }
    }
    runs_ = whole[index(length)][index(slots)];
  }
  int runs() const { return runs_; }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int forward_slots(int steps) { return steps == 1 ? 1 : 2; }

  // l backward steps from a kept x and the gradient at the far end, in m slots that hold everything
  // else.
  int backward(int l, int m) const {
    if (l == 1) return m >= 2 ? 1 : kImpossible;
    int best = kImpossible;
    for (int k = 1; k < l; ++k) {
      if (m < 1 + forward_slots(k)) continue;  // the gradient waits meanwhile
      best = std::min(best, k + back_[index(l - k)][index(m - 1)] + back_[index(k)][index(m)]);
    }
    return best;
  }

  int length_;
  std::vector<std::vector<int>> back_;
  int runs_ = 0;
};

TEST(Exactness, ChainsAgainstOptimalCheckpointing) {
  std::printf("%6s %6s %9s %9s %7s\n", "length", "slots", "optimum", "found", "ratio");
  for (const int length : {16, 36, 64}) {
    const Graph graph = parse_graph(chain_text(length), "chain");
    const CostTable costs = make_cost_table(graph, device_profile("cpu"));
    const double unit = costs.seconds[OpId(0)];
    const Bytes matrix = costs.bytes[graph.makes(OpId(0))[0]];
    const int root = static_cast<int>(std::sqrt(length));
    for (const int slots : {length, length * 3 / 4, length / 2, 3 * root, 2 * root + 2, 2 * root}) {
      const int optimum = Checkpointing(length, slots).runs();
      const OptimizeResult result =
          run(graph, costs,
              {.kind = Limit::Kind::memory, .bytes = costs.persistent + slots * matrix}, 20'000);
      ASSERT_TRUE(result.met) << length << " in " << slots;
      const double ratio = result.found.seconds / (optimum * unit);
      std::printf("%6d %6d %9d %9.0f %7.3f\n", length, slots, optimum, result.found.seconds / unit,
                  ratio);
      EXPECT_GE(ratio, 1 - 1e-9);  // none is better than the optimum
      EXPECT_LE(ratio, 1.05) << length << " in " << slots;
    }
  }
}

}  // namespace
}  // namespace magis
