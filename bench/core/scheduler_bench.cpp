// Scheduling: the paper's Figure 14 (incremental against full, on rewritten networks in the manner
// of NASNet), one reschedule on BERT-base, and other compilers' orders on captured graphs.
// bench/scheduling.py makes a table and a figure of it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "magis/graph/text.h"
#include "magis/schedule/peers.h"
#include "magis/schedule/scheduler.h"
#include "support/nasnet.h"
#include "support/random.h"
#include "support/scheduling_support.h"
#include "support/transformer_graph.h"

namespace magis {
namespace {

// Of this process's time on a processor: other processes do not count.
double cpu_microseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

template <class Run>
double microseconds(Run&& run) {
  const double start = cpu_microseconds();
  run();
  return cpu_microseconds() - start;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// ---- Figure 14

struct Round {
  double full_us = 0;
  double incremental_us = 0;  // with the order's carrying over
  double ratio = 0;           // median of pairs
  Bytes full_peak = 0;
  Bytes incremental_peak = 0;
  std::size_t operators = 0;
};

Round measure_round(const test::Scheduled& next, const test::Edit& edit,
                    IncrementalScheduler& scheduler, std::vector<NodeId>& order) {
  constexpr int kPairs = 3;
  Round round;
  round.operators = next.problem.size();
  std::vector<double> full_times;
  std::vector<double> incremental_times;
  std::vector<double> ratios;
  for (int pair = 0; pair < kPairs; ++pair) {
    full_times.push_back(
        microseconds([&] { round.full_peak = schedule_fully(next.problem).peak; }));
    incremental_times.push_back(microseconds([&] {
      order = order_by_rank(next.problem, edit.rank);
      scheduler.reschedule(next.problem, edit.changed, order);
    }));
    ratios.push_back(full_times.back() / incremental_times.back());
  }
  round.full_us = median(full_times);
  round.incremental_us = median(incremental_times);
  round.ratio = median(ratios);
  round.incremental_peak = peak_of(next.problem, order);
  return round;
}

constexpr int kRounds = 10;

std::vector<Round> measure_network(uint64_t seed, bool training) {
  test::Random random(seed);
  Graph graph = test::to_graph(test::make_nasnet(seed, {.training = training}));
  std::vector<NodeId> order = schedule_fully(test::Scheduled(graph).problem).order;
  IncrementalScheduler scheduler;
  std::vector<Round> rounds;
  while (rounds.size() < kRounds) {
    Rewritten rewritten = rewrite_at_random(graph, 1, random.below(1000));
    const test::Edit edit = test::edit_of(rewritten, order);
    if (edit.changed.empty()) continue;  // views alone: another one
    graph = std::move(rewritten.graph);
    rounds.push_back(measure_round(test::Scheduled(graph), edit, scheduler, order));
  }
  return rounds;
}

void BM_Figure14(benchmark::State& state) {
  static std::map<std::pair<int64_t, int64_t>, std::vector<Round>> measured;
  auto& rounds = measured[{state.range(0), state.range(1)}];
  for (auto _ : state) {
    if (rounds.empty()) {
      rounds = measure_network(static_cast<uint64_t>(state.range(1)), state.range(0) != 0);
    }
  }
  const Round& round = rounds[static_cast<std::size_t>(state.range(2))];
  state.counters["operators"] = static_cast<double>(round.operators);
  state.counters["full_us"] = round.full_us;
  state.counters["incremental_us"] = round.incremental_us;
  state.counters["ratio"] = round.ratio;
  state.counters["full_peak"] = static_cast<double>(round.full_peak);
  state.counters["incremental_peak"] = static_cast<double>(round.incremental_peak);
}
BENCHMARK(BM_Figure14)
    ->ArgNames({"training", "network", "round"})
    ->ArgsProduct({{0, 1},
                   benchmark::CreateDenseRange(1, 10, 1),
                   benchmark::CreateDenseRange(0, kRounds - 1, 1)})
    ->Iterations(1);

// ---- BERT-base

const test::Scheduled& bert() {
  static const test::Scheduled step(parse_graph(test::transformer_graph_text({.layers = 12,
                                                                              .batch = 32,
                                                                              .sequence = 512,
                                                                              .hidden = 768,
                                                                              .heads = 12,
                                                                              .feed_forward = 3072,
                                                                              .vocabulary = 30522}),
                                                "bert"),
                                    "reference");
  return step;
}

void BM_ScheduleFully(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(schedule_fully(bert().problem));
  state.counters["operators"] = static_cast<double>(bert().problem.size());
}
BENCHMARK(BM_ScheduleFully)->Unit(benchmark::kMillisecond);

// After a change of any one operator.
void BM_Reschedule(benchmark::State& state) {
  const std::vector<NodeId> given = program_order(bert().problem);
  IncrementalScheduler scheduler;
  std::vector<double> times;
  std::size_t next = 0;
  for (auto _ : state) {
    std::vector<NodeId> order = given;
    const NodeId changed = given[next++ % given.size()];
    const double us = microseconds([&] {
      scheduler.reschedule(bert().problem, {&changed, 1}, order);
    });
    times.push_back(us);
    state.SetIterationTime(us / 1e6);
  }
  state.counters["operators"] = static_cast<double>(given.size());
  state.counters["median_us"] = median(times);
}
BENCHMARK(BM_Reschedule)->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(0.2);

// ---- graph files in the folder MAGIS_BENCH_GRAPHS

void compare_orders(benchmark::State& state, const std::filesystem::path& file) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const test::Scheduled step(parse_graph(text, file.string()));
  Schedule ours;
  for (auto _ : state) ours = schedule_fully(step.problem);
  for (const PeerOrder& peer : peer_orders(step.problem)) {
    state.counters[std::string(peer.name)] = static_cast<double>(peak_of(step.problem, peer.order));
  }
  state.counters["ours"] = static_cast<double>(ours.peak);
  state.counters["operators"] = static_cast<double>(step.problem.size());
}

[[maybe_unused]] const bool registered = [] {
  const char* folder = std::getenv("MAGIS_BENCH_GRAPHS");
  if (folder == nullptr) return false;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".magis") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    benchmark::RegisterBenchmark(("BM_Orders/" + file.stem().string()).c_str(),
                                 [file](benchmark::State& state) { compare_orders(state, file); })
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace magis
