#include "search/state_hash.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "magis/analysis/structure.h"
#include "magis/base/hash.h"

namespace magis {
namespace {

enum class Fact : uint64_t { mode = 1, gap, order, region };

uint64_t fact(Fact kind, uint64_t a, uint64_t b, uint64_t c = 0) {
  return combine(combine(combine(static_cast<uint64_t>(kind), a), b), c);
}

std::size_t distinct(std::vector<uint64_t> colours) {
  std::ranges::sort(colours);
  return static_cast<std::size_t>(std::ranges::unique(colours).begin() - colours.begin());
}

}  // namespace

// ---- colours

struct StateHash::Vertices {
  explicit Vertices(const Graph& source)
      : graph(source), vertex_of(source.tensors().size(), -1), outputs(source.tensors().size(), 0) {
    for (const Output& output : graph.outputs()) {
      const TensorId tensor = graph.value(output.value).tensor;
      if (tensor.valid()) outputs[tensor] += mix64(static_cast<uint64_t>(output.kind));
    }
    colours.reserve(graph.op_count() + graph.inputs().size());
    for (const uint64_t own : structure_hashes(graph, 0)) colours.push_back(own);
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      for (LoopId loop = graph.loop_of(OpId(o)); loop.valid(); loop = graph.loop(loop).parent) {
        const Loop& around = graph.loop(loop);
        colours[o] = combine(colours[o], mix64(static_cast<uint64_t>(around.part)) +
                                             static_cast<uint64_t>(around.length.value));
      }
      for (const TensorId made : graph.makes(OpId(o))) vertex_of[made] = static_cast<int32_t>(o);
    }
    for (const Input& input : graph.inputs()) {
      const TensorId tensor = graph.value(input.value).tensor;
      if (!tensor.valid()) continue;
      vertex_of[tensor] = static_cast<int32_t>(colours.size());
      inputs.push_back(tensor);
      // A path is a name, but a constant's is its data.
      const bool named = input.kind != InputKind::constant;
      colours.push_back(combine(static_cast<uint64_t>(input.kind),
                                combine(hash_text(to_text(graph.value(input.value).type)),
                                        named ? 0 : hash_text(input.path))));
    }
    refine();
  }

  // What is upstream colours what is downstream, and the other way round, until no more is told
  // apart. A sweep in program order reaches any distance at once.
  void refine() {
    std::size_t classes = 0;
    for (std::size_t found = distinct(colours); found > classes;) {
      classes = found;
      for (std::size_t o = 0; o < graph.op_count(); ++o) colours[o] = from_operands(OpId(o));
      for (std::size_t o = graph.op_count(); o-- > 0;) colours[o] = from_consumers(OpId(o));
      for (const TensorId input : inputs) at(input) = combine(at(input), consumers(input));
      found = distinct(colours);
    }
  }

  uint64_t& at(TensorId tensor) { return colours[static_cast<std::size_t>(vertex_of[tensor])]; }
  uint64_t at(TensorId tensor) const {
    return colours[static_cast<std::size_t>(vertex_of[tensor])];
  }
  uint64_t result_number(TensorId tensor) const {
    const Tensor& info = graph.tensor(tensor);
    if (info.is_input) return 0;
    const auto made = graph.makes(info.producer);
    return 1 + static_cast<uint64_t>(std::ranges::find(made, tensor) - made.begin());
  }
  uint64_t from_operands(OpId op) const {
    uint64_t colour = colours[static_cast<std::size_t>(op.index)];
    for (const TensorId read : graph.reads(op)) {
      colour = combine(combine(colour, at(read)), result_number(read));
    }
    return colour;
  }
  uint64_t from_consumers(OpId op) const {
    uint64_t colour = colours[static_cast<std::size_t>(op.index)];
    for (const TensorId made : graph.makes(op)) colour = combine(colour, consumers(made));
    return colour;
  }
  uint64_t consumers(TensorId tensor) const {
    uint64_t sum = outputs[tensor];
    for (const EdgeId use : graph.uses(tensor)) {
      const OpId op = graph.edge_op(use);
      const auto position = static_cast<uint64_t>(use.index - graph.first_edge(op).index);
      sum += combine(colours[static_cast<std::size_t>(op.index)], position);
    }
    return sum;
  }
  template <class Visit>
  void for_each_neighbour(int32_t vertex, Visit&& visit) const {
    const auto visit_uses = [&](TensorId tensor) {
      for (const EdgeId use : graph.uses(tensor)) visit(graph.edge_op(use).index);
    };
    const auto ops = static_cast<int32_t>(graph.op_count());
    if (vertex >= ops) return visit_uses(inputs[static_cast<std::size_t>(vertex - ops)]);
    for (const TensorId read : graph.reads(OpId(vertex))) visit(vertex_of[read]);
    for (const TensorId made : graph.makes(OpId(vertex))) visit_uses(made);
  }

  const Graph& graph;
  std::vector<uint64_t> colours;
  std::vector<TensorId> inputs;
  IdMap<TensorId, int32_t> vertex_of;
  IdMap<TensorId, uint64_t> outputs;  // of which kinds it is
};

// ---- parts

StateHash::StateHash(const Graph& graph)
    : graph_(graph),
      modes_(graph.edge_count(), Mode::keep),
      gaps_(graph.edge_count()),
      previous_(graph.edge_count()),
      absences_(graph.tensors().size(), 0) {
  Vertices vertices(graph);
  colours_ = vertices.colours;
  part_of_.assign(colours_.size(), 0);
  std::vector<int32_t> all(colours_.size());
  std::iota(all.begin(), all.end(), 0);
  parts_.push_back({});
  std::vector<uint8_t> waiting(colours_.size(), 0);
  find_parts(vertices, all, 0, waiting);
  for (std::size_t p = parts_.size(); p-- > 0;) {  // parents come before what is in them
    Part& part = parts_[p];
    part.hash = mix64(part.colour ^ mix64(part.sum));
    if (part.parent >= 0) parts_[static_cast<std::size_t>(part.parent)].sum += part.hash;
  }
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    OpId before = graph.tensor(TensorId(t)).producer;
    for (const EdgeId use : graph.uses(TensorId(t))) {
      previous_[use] = before;
      before = graph.edge_op(use);
    }
  }
}

// Those of `members` whose colour no other has belong to the part itself; what is connected among
// the others is a part of its own. `waiting` is 0 everywhere, before and after.
void StateHash::find_parts(const Vertices& vertices, const std::vector<int32_t>& members, int part,
                           std::vector<uint8_t>& waiting) {
  const auto at = [](int32_t v) { return static_cast<std::size_t>(v); };
  std::unordered_map<uint64_t, int> count;
  for (const int32_t v : members) {
    ++count[colours_[at(v)]];
    parts_[static_cast<std::size_t>(part)].colour += mix64(colours_[at(v)]);
    part_of_[at(v)] = part;
  }
  bool any_alone = false;
  for (const int32_t v : members) {
    waiting[at(v)] = count[colours_[at(v)]] > 1;
    any_alone = any_alone || waiting[at(v)] == 0;
  }
  if (!any_alone && part > 0) {
    // Nothing stands out: program order has to decide, and isomorphic states may hash differently.
    const int32_t first = members.front();
    waiting[at(first)] = 0;
    colours_[at(first)] = mix64(colours_[at(first)]);
  }
  std::vector<int32_t> reached;
  for (const int32_t v : members) {
    if (waiting[at(v)] == 0) continue;
    reached.assign(1, v);
    waiting[at(v)] = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      vertices.for_each_neighbour(reached[i], [&](int32_t next) {
        if (waiting[at(next)] == 0) return;
        waiting[at(next)] = 0;
        reached.push_back(next);
      });
    }
    std::ranges::sort(reached);
    parts_.push_back({.parent = part});
    find_parts(vertices, reached, static_cast<int>(parts_.size()) - 1, waiting);
  }
}

void StateHash::count(OpId op, uint64_t fact, bool add) {
  const auto vertex = static_cast<std::size_t>(op.index);
  const uint64_t term = combine(colours_[vertex], fact);
  int part = part_of_[vertex];
  uint64_t change = add ? term : uint64_t{0} - term;
  for (; part >= 0; part = parts_[static_cast<std::size_t>(part)].parent) {
    Part& changed = parts_[static_cast<std::size_t>(part)];
    changed.sum += change;
    const uint64_t before = changed.hash;
    changed.hash = mix64(changed.colour ^ mix64(changed.sum));
    change = changed.hash - before;
  }
}

// ---- facts

uint64_t StateHash::position_of(EdgeId edge) const {
  return static_cast<uint64_t>(edge.index - graph_.first_edge(graph_.edge_op(edge)).index);
}

void StateHash::count_edge(EdgeId edge, bool add) {
  const OpId op = graph_.edge_op(edge);
  const uint64_t position = position_of(edge);
  const Mode mode = modes_[edge];
  const uint64_t from = mode.kind() == Mode::recompute_late ? colour(mode.late_from()) : 0;
  count(op, fact(Fact::mode, position, uint64_t{mode.kind()}, from), add);
  const Gap& gap = gaps_[edge];
  if (!gap.use.valid()) return;
  count(op, fact(Fact::gap, position, colour(gap.release), colour(gap.load)), add);
}

void StateHash::count_order(EdgeId edge, bool add) {
  const OpId previous = previous_[edge];
  const uint64_t before = previous.valid() ? colour(previous) : 0;
  count(graph_.edge_op(edge), fact(Fact::order, position_of(edge), before), add);
}

void StateHash::change_tensor(TensorId tensor, int more) {
  const bool counted = absences_[tensor] > 0;
  absences_[tensor] += more;
  const bool counts = absences_[tensor] > 0;
  if (counted == counts) return;
  for (const EdgeId use : graph_.uses(tensor)) count_order(use, counts);
}

void StateHash::set_mode(EdgeId edge, Mode mode) {
  if (modes_[edge] == mode && !gaps_[edge].use.valid()) return;
  const bool was_kept = modes_[edge] == Mode::keep;
  if (!was_kept) count_edge(edge, false);
  modes_[edge] = mode;
  gaps_[edge] = {};
  const bool is_kept = mode == Mode::keep;
  if (!is_kept) count_edge(edge, true);
  if (was_kept != is_kept) change_tensor(graph_.edge_tensor(edge), is_kept ? -1 : 1);
}

void StateHash::set_gap(const Gap& gap) {
  set_mode(gap.use, Mode::swap);
  count_edge(gap.use, false);
  gaps_[gap.use] = gap;
  count_edge(gap.use, true);
}

void StateHash::set_previous(EdgeId edge, OpId previous) {
  if (previous_[edge] == previous) return;
  const bool counts = absences_[graph_.edge_tensor(edge)] > 0;
  if (counts) count_order(edge, false);
  previous_[edge] = previous;
  if (counts) count_order(edge, true);
}

void StateHash::load(const Decisions& decisions) {
  IdMap<TensorId, OpId> last(graph_.tensors().size());
  for (std::size_t t = 0; t < last.size(); ++t) {
    last[TensorId(t)] = graph_.tensor(TensorId(t)).producer;
  }
  for (const OpId op : decisions.order) {
    EdgeId edge = graph_.first_edge(op);
    for (const TensorId read : graph_.reads(op)) {
      set_mode(edge, decisions.modes[edge]);
      set_previous(edge, last[read]);
      last[read] = op;
      ++edge.index;
    }
  }
  for (const Gap& gap : decisions.gaps) set_gap(gap);
}

void StateHash::change_region(const FissionRegion& region, uint64_t around, bool add) {
  uint64_t hash = fact(Fact::region, around, static_cast<uint64_t>(region.part),
                       static_cast<uint64_t>(region.length));
  uint64_t members = 0;
  const auto label_of = [&](std::size_t i) {
    const Label& label = region.labels[i];
    return combine(static_cast<uint64_t>(label.axis), static_cast<uint64_t>(label.step));
  };
  for (std::size_t i = 0; i < region.operators.size(); ++i) {
    members += combine(colour(region.operators[i]), label_of(i));
  }
  hash = combine(hash, members);
  for (std::size_t i = 0; i < region.operators.size(); ++i) {
    count(region.operators[i], fact(Fact::region, hash, label_of(i)), add);
  }
  for (const FissionRegion& child : region.children) change_region(child, hash, add);
}

}  // namespace magis
