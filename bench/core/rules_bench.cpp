// Matching rewrite rules: a whole graph, and what an edit changes, over graphs of 4 to 64 stacked
// transformer layers (12: about BERT-base's 850 operators).
#include <benchmark/benchmark.h>

#include <vector>

#include "magis/graph/text.h"
#include "support/transformer_graph.h"
#include "transform/rules/rule_book.h"

namespace magis {
namespace {

Graph layers(const benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  return parse_graph(test::transformer_graph_text({.layers = count}), "transformer");
}

void BM_MatchGraph(benchmark::State& state) {
  const Graph graph = layers(state);
  const TermGraph terms(graph);
  MatchIndex index(RuleBook::standard(), RuleBook::standard().all());
  for (auto _ : state) index.find_all(terms);
  state.counters["matches"] = static_cast<double>(index.matches().size());
}
BENCHMARK(BM_MatchGraph)->Arg(4)->Arg(12)->Arg(64)->Unit(benchmark::kMillisecond);

// The matches of one rule after another are applied; what is timed is bringing the index up to
// date.
void BM_MatchAfterEdit(benchmark::State& state) {
  const Graph graph = layers(state);
  TermGraph terms(graph);
  MatchIndex index(RuleBook::standard(), RuleBook::standard().all());
  index.find_all(terms);
  const std::vector<RuleMatch> matches = index.matches();
  std::size_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    terms.begin_trial();
    while (!matches[next % matches.size()].rule->apply(terms, matches[next % matches.size()])) {
      ++next;
    }
    ++next;
    const std::vector<TermId> changed = terms.take_changed();
    state.ResumeTiming();
    index.update(terms, changed);
    state.PauseTiming();
    terms.roll_back();
    index.find_all(terms);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_MatchAfterEdit)
    ->Arg(4)
    ->Arg(12)
    ->Arg(64)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(400);

}  // namespace
}  // namespace magis
