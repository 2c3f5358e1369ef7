#include "support/named_gaps.h"

#include <algorithm>

#include "magis/base/error.h"

namespace magis::test {

OpId op_named(const Graph& graph, std::string_view result) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (graph.value(graph.op(OpId(i)).results[0]).name == result) return OpId(i);
  }
  MAGIS_CHECK(false, "no operator makes %" << result);
}

EdgeId edge_named(const Graph& graph, std::string_view use, std::string_view tensor) {
  const OpId op = op_named(graph, use);
  EdgeId edge = graph.first_edge(op);
  for (const TensorId read : graph.reads(op)) {
    if (graph.value(graph.tensor(read).value).name == tensor) return edge;
    ++edge.index;
  }
  MAGIS_CHECK(false, "%" << use << " does not read %" << tensor);
}

void add_gaps(const Graph& graph, const std::vector<NamedGap>& gaps, Decisions& decisions) {
  for (const NamedGap& gap : gaps) {
    const EdgeId use = edge_named(graph, gap.use, gap.tensor);
    decisions.modes[use] = Mode::swap;
    decisions.gaps.push_back({use, op_named(graph, gap.release), op_named(graph, gap.load)});
  }
  std::ranges::sort(decisions.gaps, {}, &Gap::use);
}

}  // namespace magis::test
