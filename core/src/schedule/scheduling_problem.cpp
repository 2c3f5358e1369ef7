#include "magis/schedule/scheduling_problem.h"

#include <algorithm>

#include "magis/base/error.h"

namespace magis {
namespace {

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const IdMap<TensorId, Bytes>& bytes,
                 const IdMap<OpId, Bytes>& scratch)
      : graph_(graph), scratch_(scratch), node_of_(graph.op_count()) {
    problem_.bytes = bytes;
    problem_.maker = IdMap<TensorId, NodeId>(graph.tensors().size());
    for (const Tensor& tensor : graph.tensors()) {
      problem_.output.push_back(tensor.is_output && !tensor.is_input);
    }
  }

  SchedulingProblem build(std::span<const std::vector<OpId>> together) {
    group(together);
    find_readers();
    for (std::size_t n = 0; n < problem_.operators.row_count(); ++n) add_node(NodeId(n));
    link_successors();
    return std::move(problem_);
  }

 private:
  void group(std::span<const std::vector<OpId>> together) {
    IdMap<OpId, const std::vector<OpId>*> stretch_of(graph_.op_count(), nullptr);
    for (const std::vector<OpId>& stretch : together) {
      for (const OpId op : stretch) stretch_of[op] = &stretch;
    }
    for (std::size_t o = 0; o < graph_.op_count(); ++o) {
      const OpId op(o);
      const std::vector<OpId>* stretch = stretch_of[op];
      const bool continues = stretch != nullptr && stretch->front() != op;
      if (continues) {
        MAGIS_CHECK(o > 0 && stretch_of[OpId(o - 1)] == stretch,
                    "operators that stay together are apart at " << o);
      } else if (o > 0) {
        problem_.operators.end_row();
      }
      problem_.operators.push_back(op);
      node_of_[op] = NodeId(problem_.operators.row_count());
    }
    if (graph_.op_count() > 0) problem_.operators.end_row();
  }

  NodeId maker(TensorId tensor) const {
    const Tensor& info = graph_.tensor(tensor);
    return info.is_input ? NodeId() : node_of_[info.producer];
  }

  void find_readers() {
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      const TensorId tensor(t);
      NodeId last = maker(tensor);
      bool left = false;  // its node
      if (last.valid() && !problem_.output[tensor]) {
        for (const EdgeId edge : graph_.uses(tensor)) {
          const NodeId reader = node_of_[graph_.edge_op(edge)];
          if (reader == last) continue;
          problem_.readers.push_back(reader);
          last = reader;
          left = true;
        }
      }
      problem_.readers.end_row();
      const bool inside = !left && !graph_.uses(tensor).empty() && !problem_.output[tensor];
      if (!inside) problem_.maker[tensor] = maker(tensor);
    }
  }

  void add_node(NodeId node) {
    const std::span<const OpId> ops = problem_.operators[SchedulingProblem::row(node)];
    add_predecessors(node, ops);
    add_reads(node, ops);
    Bytes results = 0;
    for (const OpId op : ops) {
      for (const TensorId made : graph_.makes(op)) {
        if (problem_.maker[made] != node) continue;
        problem_.makes.push_back(made);
        results += problem_.bytes[made];
      }
    }
    problem_.makes.end_row();
    problem_.results.push_back(results);
    if (ops.size() == 1) {
      problem_.scratch.push_back(scratch_[ops[0]]);
      add_overwritable(ops[0]);
    } else {
      problem_.scratch.push_back(inner_peak(node, ops) - results);
    }
    problem_.overwritable.end_row();
  }

  void add_predecessors(NodeId node, std::span<const OpId> ops) {
    std::vector<NodeId> before;
    for (const OpId op : ops) {
      for (const OpId predecessor : graph_.predecessors(op)) {
        if (node_of_[predecessor] != node) before.push_back(node_of_[predecessor]);
      }
    }
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const NodeId predecessor : before) {
      problem_.predecessors.push_back(predecessor);
      successions_.emplace_back(predecessor, node);
    }
    problem_.predecessors.end_row();
  }

  bool managed(TensorId tensor) const {
    return !problem_.readers[static_cast<std::size_t>(tensor.index)].empty();
  }

  void add_reads(NodeId node, std::span<const OpId> ops) {
    std::vector<TensorId> reads;
    for (const OpId op : ops) {
      for (const TensorId tensor : graph_.reads(op)) {
        if (managed(tensor) && maker(tensor) != node) reads.push_back(tensor);
      }
    }
    if (ops.size() > 1) {
      std::ranges::sort(reads);
      reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    }
    for (const TensorId tensor : reads) problem_.reads.push_back(tensor);
    problem_.reads.end_row();
  }

  void add_overwritable(OpId op) {
    for (const Graph::InPlaceChoice& choice : graph_.in_place_choices(op)) {
      const TensorId tensor = graph_.edge_tensor(choice.edge);
      if (managed(tensor)) problem_.overwritable.push_back(tensor);
    }
  }

  // Of the operators of one node: what they make and hold, apart from what was there before.
  Bytes inner_peak(NodeId node, std::span<const OpId> ops) const {
    Bytes live = 0;
    Bytes peak = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto made = graph_.makes(ops[i]);
      const bool over = runs_in_place(node, ops, i);
      for (std::size_t r = over ? 1 : 0; r < made.size(); ++r) live += problem_.bytes[made[r]];
      peak = std::max(peak, live + scratch_[ops[i]]);
      // Of the operand that is taken over only the name dies.
      Bytes freed = over ? -problem_.bytes[made[0]] : 0;
      for (const TensorId read : graph_.reads(ops[i])) {
        if (dies_inside(read, node, ops[i])) freed += problem_.bytes[read];
      }
      for (const TensorId result : made) {
        if (graph_.uses(result).empty() && !problem_.output[result])
          freed += problem_.bytes[result];
      }
      live -= freed;
    }
    return peak;
  }

  bool runs_in_place(NodeId node, std::span<const OpId> ops, std::size_t i) const {
    return std::ranges::any_of(graph_.in_place_choices(ops[i]), [&](const auto& choice) {
      return dies_inside(graph_.edge_tensor(choice.edge), node, ops[i]);
    });
  }

  // Made in the node, and read for the last time by `op` of the same node.
  bool dies_inside(TensorId tensor, NodeId node, OpId op) const {
    return maker(tensor) == node && !problem_.output[tensor] && !managed(tensor) &&
           graph_.edge_op(graph_.uses(tensor).back()) == op;
  }

  void link_successors() {
    const auto grouped = Rows<std::pair<NodeId, NodeId>>::group(
        problem_.operators.row_count(), successions_,
        [](const auto& pair) { return SchedulingProblem::row(pair.first); });
    for (std::size_t n = 0; n < problem_.operators.row_count(); ++n) {
      for (const auto& [predecessor, node] : grouped[n]) problem_.successors.push_back(node);
      problem_.successors.end_row();
    }
  }

  const Graph& graph_;
  const IdMap<OpId, Bytes>& scratch_;
  IdMap<OpId, NodeId> node_of_;
  std::vector<std::pair<NodeId, NodeId>> successions_;
  SchedulingProblem problem_;
};

}  // namespace

std::vector<std::vector<OpId>> outermost_loops(const Graph& graph) {
  std::vector<std::vector<OpId>> stretches;
  for (const Loop& loop : graph.loops()) {
    if (loop.parent.valid()) continue;
    std::vector<OpId>& stretch = stretches.emplace_back();
    for (OpId op = loop.begin; op <= loop.end; ++op.index) stretch.push_back(op);
  }
  return stretches;
}

SchedulingProblem make_scheduling_problem(const Graph& graph, const IdMap<TensorId, Bytes>& bytes,
                                          const IdMap<OpId, Bytes>& scratch) {
  return make_scheduling_problem(graph, bytes, scratch, outermost_loops(graph));
}

SchedulingProblem make_scheduling_problem(const Graph& graph, const IdMap<TensorId, Bytes>& bytes,
                                          const IdMap<OpId, Bytes>& scratch,
                                          std::span<const std::vector<OpId>> together) {
  return ProblemBuilder(graph, bytes, scratch).build(together);
}

std::vector<NodeId> program_order(const SchedulingProblem& problem) {
  std::vector<NodeId> order;
  order.reserve(problem.size());
  for (std::size_t n = 0; n < problem.size(); ++n) order.emplace_back(n);
  return order;
}

std::vector<OpId> operators_in_order(const SchedulingProblem& problem,
                                     std::span<const NodeId> order) {
  std::vector<OpId> ops;
  for (const NodeId node : order) {
    const auto of_node = problem.operators[SchedulingProblem::row(node)];
    ops.insert(ops.end(), of_node.begin(), of_node.end());
  }
  return ops;
}

bool is_valid_order(const SchedulingProblem& problem, std::span<const NodeId> order) {
  if (order.size() != problem.size()) return false;
  IdMap<NodeId, uint8_t> ran(problem.size(), 0);
  for (const NodeId node : order) {
    if (!node.valid() || SchedulingProblem::row(node) >= problem.size() || ran[node]) return false;
    const auto before = problem.predecessors[SchedulingProblem::row(node)];
    if (!std::ranges::all_of(before, [&](NodeId p) { return ran[p] != 0; })) return false;
    ran[node] = 1;
  }
  return true;
}

LiveBytesOfOrder::LiveBytesOfOrder(const SchedulingProblem& problem)
    : problem_(problem), waiting_(problem.bytes.size(), 0) {
  for (std::size_t t = 0; t < problem.bytes.size(); ++t) {
    waiting_[TensorId(t)] = static_cast<int>(problem.readers[t].size());
  }
}

Bytes LiveBytesOfOrder::during(NodeId node) const {
  const std::size_t n = SchedulingProblem::row(node);
  Bytes bytes = live_ + problem_.results[n] + problem_.scratch[n];
  for (const TensorId tensor : problem_.overwritable[n]) {
    if (waiting_[tensor] == 1) return bytes - problem_.bytes[tensor];
  }
  return bytes;
}

Bytes LiveBytesOfOrder::change(NodeId node) const {
  const std::size_t n = SchedulingProblem::row(node);
  Bytes bytes = problem_.results[n];
  for (const TensorId tensor : problem_.reads[n]) {
    if (waiting_[tensor] == 1) bytes -= problem_.bytes[tensor];
  }
  for (const TensorId tensor : problem_.makes[n]) {
    if (problem_.dies_unread(tensor)) bytes -= problem_.bytes[tensor];
  }
  return bytes;
}

Bytes LiveBytesOfOrder::run(NodeId node) {
  const Bytes bytes = during(node);
  live_ += change(node);
  for (const TensorId tensor : problem_.reads[SchedulingProblem::row(node)]) --waiting_[tensor];
  return bytes;
}

Bytes peak_of(const SchedulingProblem& problem, std::span<const NodeId> order) {
  LiveBytesOfOrder bytes(problem);
  Bytes peak = 0;
  for (const NodeId node : order) peak = std::max(peak, bytes.run(node));
  return peak;
}

}  // namespace magis
