// What must run before what, beyond "made before it is read".
#include <algorithm>
#include <functional>

#include "graph/draws.h"
#include "graph/loops.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

// The readers of one input since it was last written to.
struct Access {
  OpId last_writer;
  std::vector<OpId> readers;
};

std::vector<TensorId> written_tensors(const Graph& graph, const Operator& op) {
  std::vector<TensorId> written;
  for (int position : op.info->mutated) {
    if (static_cast<std::size_t>(position) >= op.args.size()) continue;
    for_each_value(op.args[static_cast<std::size_t>(position)], [&](ValueId id) {
      const TensorId tensor = graph.value(id).tensor;
      if (tensor.valid()) written.push_back(tensor);
    });
  }
  return written;
}

// Makes the loss; invalid if there is none.
OpId loss_producer(const Graph& graph) {
  for (const Output& output : graph.outputs()) {
    const TensorId tensor = graph.value(output.value).tensor;
    if (output.kind == OutputKind::loss && tensor.valid()) return graph.tensor(tensor).producer;
  }
  return OpId();
}

// A loop's body stays together: what comes before something inside comes before its begin, and what
// comes after something inside comes after its end. The two that stand in the same body.
std::pair<OpId, OpId> lifted(const Graph& graph, OpId before, OpId after) {
  const std::vector<LoopId> first = loops_around(graph, before);
  const std::vector<LoopId> second = loops_around(graph, after);
  std::size_t common = 0;
  while (common < std::min(first.size(), second.size()) && first[common] == second[common]) {
    ++common;
  }
  if (common < first.size()) before = graph.loop(first[common]).end;
  if (common < second.size()) after = graph.loop(second[common]).begin;
  return {before, after};
}

void add_loop_precedence(const Graph& graph, std::vector<std::pair<OpId, OpId>>& successions) {
  if (graph.loops().empty()) return;
  const std::size_t count = successions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto [before, after] = lifted(graph, successions[i].first, successions[i].second);
    if (before != after) successions.emplace_back(before, after);
  }
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const LoopId loop = graph.loop_of(OpId(i));
    if (!loop.valid()) continue;
    successions.emplace_back(graph.loop(loop).begin, OpId(i));
    successions.emplace_back(OpId(i), graph.loop(loop).end);
  }
}

// Sorts the pairs by `key` and drops repeated ones.
template <class Key>
void sort_distinct(std::vector<std::pair<OpId, OpId>>& pairs, Key&& key) {
  std::ranges::sort(pairs, {}, key);
  const auto repeated = std::ranges::unique(pairs);
  pairs.erase(repeated.begin(), repeated.end());
}

// For every operator the second of the pairs that it is the first of, in their order.
Rows<OpId> seconds_by_first(std::size_t op_count, const std::vector<std::pair<OpId, OpId>>& pairs) {
  const auto grouped = Rows<std::pair<OpId, OpId>>::group(
      op_count, pairs, [](const auto& pair) { return static_cast<std::size_t>(pair.first.index); });
  Rows<OpId> rows;
  for (std::size_t i = 0; i < op_count; ++i) {
    for (const auto& [first, second] : grouped[i]) rows.push_back(second);
    rows.end_row();
  }
  return rows;
}

}  // namespace

void GraphBuilder::link_precedence() {
  IdMap<TensorId, Access> accesses(graph_.tensors_.size());
  std::vector<std::pair<OpId, OpId>> successions;  // predecessor, operator
  std::vector<std::pair<OpId, OpId>>
      overwritings;  // reader of an input, operator that writes to it
  OpId last_random;
  const OpId loss = loss_producer(graph_);
  std::vector<OpId> before;
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    const OpId op(i);
    before.clear();
    for (TensorId tensor : graph_.reads(op)) {
      before.push_back(graph_.tensor(tensor).producer);
      before.push_back(accesses[tensor].last_writer);
      accesses[tensor].readers.push_back(op);
    }
    for (TensorId tensor : written_tensors(graph_, graph_.op(op))) {
      Access& access = accesses[tensor];
      before.insert(before.end(), access.readers.begin(), access.readers.end());
      // A loop's results are read after it, by when they do not change any more.
      if (graph_.tensor(tensor).is_input) {
        for (OpId reader : access.readers) {
          if (reader != op) overwritings.emplace_back(reader, op);
        }
      }
      access = {.last_writer = op, .readers = {op}};
      // A step that fails on its way to the loss has updated nothing.
      if (graph_.tensor(tensor).is_input && graph_.op(op).backward && loss < op) {
        before.push_back(loss);
      }
    }
    if (draws_or_may_draw(*graph_.op(op).info)) before.push_back(std::exchange(last_random, op));
    for (OpId predecessor : before) {
      if (predecessor.valid() && predecessor != op) successions.emplace_back(predecessor, op);
    }
  }
  add_loop_precedence(graph_, successions);
  sort_distinct(successions, [](const auto& pair) { return std::pair(pair.second, pair.first); });
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    for (; next < successions.size() && successions[next].second == OpId(i); ++next) {
      graph_.predecessors_.push_back(successions[next].first);
    }
    graph_.predecessors_.end_row();
  }
  graph_.successors_ = seconds_by_first(graph_.operators_.size(), successions);
  sort_distinct(overwritings, std::identity());
  graph_.overwriters_ = seconds_by_first(graph_.operators_.size(), overwritings);
}

}  // namespace magis
