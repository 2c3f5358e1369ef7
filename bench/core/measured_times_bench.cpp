// Look-ups of measured times among a million entries, and cost tables with and without them.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "magis/graph/text.h"
#include "magis/simulate/profile.h"

namespace magis {
namespace {

std::string key(int64_t n) {
  return "aten.mm(%0, %1) : f32[" + std::to_string(n % 1000 + 1) + "," +
         std::to_string(n / 1000 + 1) + "] of f32[" + std::to_string(n % 1000 + 1) +
         ",1024], f32[1024," + std::to_string(n / 1000 + 1) + "]";
}

void look_up_among_a_million(benchmark::State& state) {
  constexpr int64_t kEntries = 1'000'000;
  MeasuredTimes times;
  std::vector<std::string> keys;
  for (int64_t n = 0; n < kEntries; ++n) times.add(key(n), 1e-6);
  // Far apart, so that no look-up finds its entry in a cache.
  for (int64_t n = 0; n < 4096; ++n) keys.push_back(key(n * 2654435761 % (2 * kEntries)));
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(times.find(keys[next++ % keys.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(look_up_among_a_million);

}  // namespace
}  // namespace magis
