#include "search/segment_problem.h"

#include <algorithm>
#include <utility>

namespace magis {
namespace {

class SegmentProblemBuilder {
 public:
  SegmentProblemBuilder(const Evaluator& evaluator, LoopId loop)
      : evaluator_(evaluator),
        source_(evaluator.problem()),
        graph_(*source_.graph),
        life_of_(source_.bytes.size(), -1),
        last_(source_.bytes.size()),
        life_of_edge_(source_.edge_op.size(), -1) {
    if (loop.valid()) {
      built_.first = evaluator.position(graph_.loop(loop).begin) + 1;
      end_ = evaluator.position(graph_.loop(loop).end);
    } else {
      end_ = evaluator.op_count();
    }
    built_.node = IdMap<OpId, NodeId>(graph_.op_count());
  }

  SegmentProblem build() && {
    number_nodes();
    for (int k = built_.first; k < end_; ++k) add_operator(k);
    add_lives();
    add_scratch();
    link();
    return std::move(built_);
  }

 private:
  struct Life {
    Bytes bytes = 0;
    NodeId maker = {};
    bool original = false;  // not a copy
    bool output = false;
    std::vector<NodeId> readers = {};
  };
  struct Stretch {  // positions of a node
    int first = 0;
    int end = 0;
  };

  std::size_t node_count() const { return stretches_.size(); }

  void number_nodes() {
    for (int k = built_.first; k < end_;) {
      const OpId op = evaluator_.op_at(k);
      const LoopId inner = graph_.bounded_loop(op);
      const int end = inner.valid() ? evaluator_.position(graph_.loop(inner).end) + 1 : k + 1;
      stretches_.push_back({k, end});
      for (; k < end; ++k) {
        built_.node[evaluator_.op_at(k)] = NodeId(node_count() - 1);
        built_.problem.operators.push_back(evaluator_.op_at(k));
      }
      built_.problem.operators.end_row();
    }
  }

  void add_operator(int position) {
    const OpId op = evaluator_.op_at(position);
    const NodeId node = built_.node[op];
    for (const OpId before : graph_.predecessors(op)) precede(built_.node[before], node);
    for (const auto [edge, tensor] : source_.operands[Problem::row(op)]) {
      if (built_.node[source_.producer[tensor]].valid()) add_use(edge, tensor, node);
    }
    read_by_chain(position, node);
    for (const TensorId made : source_.results[Problem::row(op)]) {
      start_life(made, node, op);
      lives_.back().original = true;
      lives_.back().output = source_.output[made] != 0;
    }
  }

  // The use reads the present life of the tensor, or begins another one: where its tensor is loaded
  // or made again, by the operator's own chain or by an earlier one.
  void add_use(EdgeId edge, TensorId tensor, NodeId node) {
    const OpId op = source_.edge_op[edge];
    const OpId holder = evaluator_.op_at(evaluator_.held_from(edge));
    if (evaluator_.mode(edge) == Mode::swap) {
      start_life(tensor, node, op);
    } else if (holder != last_[tensor]) {
      start_life(tensor, built_.node[holder], op);
    }
    read(tensor, node);
    last_[tensor] = op;
    life_of_edge_[edge] = life_of_[tensor];
  }

  // Copies find some of their operands in place.
  void read_by_chain(int position, NodeId node) {
    const auto chain = evaluator_.chain_at(position);
    for (const OpId op : chain) {
      for (const OpId writer : source_.overwriters[Problem::row(op)]) {
        precede(node, built_.node[writer]);
      }
      for (const auto [edge, tensor] : source_.operands[Problem::row(op)]) {
        const bool made_too = std::ranges::find(chain, source_.producer[tensor]) != chain.end();
        if (!made_too && life_of_[tensor] >= 0) read(tensor, node);
      }
    }
  }

  void start_life(TensorId tensor, NodeId maker, OpId last) {
    if (life_of_[tensor] >= 0) {
      const Life& before = lives_[static_cast<std::size_t>(life_of_[tensor])];
      precede(before.maker, maker);
      for (const NodeId reader : before.readers) precede(reader, maker);
    }
    life_of_[tensor] = static_cast<int>(lives_.size());
    last_[tensor] = last;
    lives_.push_back({.bytes = source_.bytes[tensor], .maker = maker});
  }

  void read(TensorId tensor, NodeId node) {
    Life& life = lives_[static_cast<std::size_t>(life_of_[tensor])];
    if (life.maker == node || (!life.readers.empty() && life.readers.back() == node)) return;
    precede(life.maker, node);
    life.readers.push_back(node);
  }

  void precede(NodeId before, NodeId after) {
    if (before.valid() && before < after) successions_.emplace_back(before, after);
  }

  // What a copy serves its own operator alone with, or a loop its own body, is part of what the
  // node needs while it runs. What an operator makes is there at least while it runs.
  bool outlives_node(const Life& life) const {
    return life.output || !life.readers.empty() || (life.original && is_plain(life.maker));
  }
  bool is_plain(NodeId node) const {
    const Stretch& stretch = stretches_[at(node)];
    return stretch.end == stretch.first + 1 && evaluator_.chain_at(stretch.first).empty();
  }

  void add_lives() {
    SchedulingProblem& problem = built_.problem;
    problem.results.assign(node_count(), 0);
    std::vector<std::pair<NodeId, TensorId>> makes;
    std::vector<std::pair<NodeId, TensorId>> reads;
    for (std::size_t l = 0; l < lives_.size(); ++l) {
      const Life& life = lives_[l];
      const TensorId id(l);
      problem.bytes.push_back(life.bytes);
      problem.output.push_back(life.output);
      if (!life.output) {
        for (const NodeId reader : life.readers) {
          problem.readers.push_back(reader);
          reads.emplace_back(reader, id);
        }
      }
      problem.readers.end_row();
      const bool counts = outlives_node(life);
      problem.maker.push_back(counts ? life.maker : NodeId());
      if (!counts) continue;
      makes.emplace_back(life.maker, id);
      problem.results[at(life.maker)] += life.bytes;
    }
    fill(problem.makes, makes);
    fill(problem.reads, reads);
  }

  void add_scratch() {
    SchedulingProblem& problem = built_.problem;
    for (std::size_t n = 0; n < node_count(); ++n) {
      const auto [first, end] = stretches_[n];
      if (is_plain(NodeId(n))) {
        const OpId op = evaluator_.op_at(first);
        problem.scratch.push_back(source_.scratch[op]);
        for (const auto [edge, tensor] : source_.overwritable[Problem::row(op)]) {
          const int life = life_of_edge_[edge];
          if (life >= 0) problem.overwritable.push_back(TensorId(life));
        }
      } else {
        Bytes most = 0;
        for (int k = first; k < end; ++k) most = std::max(most, evaluator_.bytes_at(k));
        most -= evaluator_.carried_to(first) + problem.results[n];
        problem.scratch.push_back(std::max<Bytes>(0, most));
      }
      problem.overwritable.end_row();
    }
  }

  void link() {
    std::ranges::sort(successions_);
    const auto repeated = std::ranges::unique(successions_);
    successions_.erase(repeated.begin(), repeated.end());
    fill(built_.problem.successors, successions_);
    for (auto& [before, after] : successions_) std::swap(before, after);
    std::ranges::sort(successions_);
    fill(built_.problem.predecessors, successions_);
  }

  template <class Item>
  void fill(Rows<Item>& rows, const std::vector<std::pair<NodeId, Item>>& pairs) {
    const auto grouped = Rows<std::pair<NodeId, Item>>::group(
        node_count(), pairs, [](const auto& pair) { return SchedulingProblem::row(pair.first); });
    for (std::size_t n = 0; n < node_count(); ++n) {
      for (const auto& [node, item] : grouped[n]) rows.push_back(item);
      rows.end_row();
    }
  }

  static std::size_t at(NodeId node) { return SchedulingProblem::row(node); }

  const Evaluator& evaluator_;
  const Problem& source_;
  const Graph& graph_;
  SegmentProblem built_;
  int end_ = 0;
  std::vector<Stretch> stretches_;  // by node
  std::vector<Life> lives_;
  IdMap<TensorId, int> life_of_;  // the present one; -1: none in this body
  IdMap<TensorId, OpId> last_;    // that made or read it
  IdMap<EdgeId, int> life_of_edge_;
  std::vector<std::pair<NodeId, NodeId>> successions_;
};

}  // namespace

SegmentProblem make_segment_problem(const Evaluator& evaluator, LoopId loop) {
  return SegmentProblemBuilder(evaluator, loop).build();
}

}  // namespace magis
