#include "support/random_decisions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "magis/schedule/program.h"

namespace magis::test {

std::vector<OpId> random_order(const Graph& graph, Random& random) {
  std::vector<std::size_t> waiting(graph.op_count());
  std::vector<OpId> ready;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    waiting[i] = graph.predecessors(OpId(i)).size();
    if (waiting[i] == 0) ready.emplace_back(i);
  }
  std::vector<OpId> order;
  while (!ready.empty()) {
    const auto chosen = static_cast<std::ptrdiff_t>(random.below(ready.size()));
    order.push_back(ready[static_cast<std::size_t>(chosen)]);
    ready.erase(ready.begin() + chosen);
    for (OpId next : graph.successors(order.back())) {
      if (--waiting[static_cast<std::size_t>(next.index)] == 0) ready.push_back(next);
    }
  }
  return order;
}

Decisions random_decisions(const Graph& graph, Random& random, int percent) {
  Decisions decisions = program_order(graph);
  decisions.order = random_order(graph, random);
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    const Tensor& tensor = graph.tensor(graph.edge_tensor(EdgeId(e)));
    if (tensor.is_input || !recomputable(graph, tensor.producer)) continue;
    if (random.below(100) >= static_cast<uint64_t>(percent)) continue;
    const Mode modes[] = {Mode::recompute, Mode::recompute_anew,
                          Mode::late(OpId(random.below(graph.op_count())))};
    decisions.modes[EdgeId(e)] = modes[random.below(std::size(modes))];
    if (!lower(graph, decisions)) decisions.modes[EdgeId(e)] = Mode::keep;
  }
  return decisions;
}

void add_random_gaps(const Graph& graph, Random& random, int percent, Decisions& decisions) {
  for (std::size_t e = 0; e < graph.edge_count(); ++e) {
    if (random.below(100) >= static_cast<uint64_t>(percent)) continue;
    const auto reader = std::ranges::find(decisions.order, graph.edge_op(EdgeId(e)));
    const auto use = static_cast<uint64_t>(reader - decisions.order.begin());
    constexpr int kTries = 6;
    for (int i = 0; i < kTries; ++i) {
      const uint64_t load = use - random.below(std::min<uint64_t>(use, 12) + 1);
      const uint64_t release = load - random.below(std::min<uint64_t>(load, 6) + 1);
      Decisions tried = decisions;
      tried.modes[EdgeId(e)] = Mode::swap;
      tried.gaps.push_back({EdgeId(e), tried.order[release], tried.order[load]});
      if (!lower(graph, tried)) continue;
      decisions = std::move(tried);
      break;
    }
  }
}

}  // namespace magis::test
