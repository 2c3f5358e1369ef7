#include "search/split_problem.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <variant>

#include "magis/base/hash.h"
#include "search/paper_rules.h"
#include "search/trial_search.h"

namespace magis {

// ---- one split graph

SplitProblem::SplitProblem(const Graph& source, std::optional<Graph> made,
                           const DeviceProfile& profile, Bytes host_memory)
    : split(std::move(made)),
      graph(split ? *split : source),
      costs([&] {
        CostTable table = make_cost_table(graph, profile);
        table.host_memory = host_memory;
        return table;
      }()),
      problem(graph, costs),
      evaluator(problem),
      trial(problem),
      hash(graph) {
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    if (graph.bounded_loop(OpId(o)).valid()) continue;
    by_name.emplace(unsplit_name(graph.name(OpId(o))), OpId(o));
  }
}

std::string_view unsplit_name(std::string_view name) {
  constexpr std::string_view kPart = "_part";
  while (name.ends_with(kPart)) name.remove_suffix(kPart.size());
  return name;
}

// ---- orders

namespace {

class BodyOrder {
 public:
  BodyOrder(const Graph& graph, const IdMap<OpId, int>& rank)
      : graph_(graph), rank_(rank), missing_(graph.op_count(), 0) {
    members_.resize(graph.loops().size() + 1);
    for (std::size_t o = 0; o < graph.op_count(); ++o) {
      const OpId op(o);
      members_[body(op)].push_back(op);
      for (LoopId loop = graph.loop_of(op); loop.valid(); loop = graph.loop(loop).parent) {
        int& first = rank_[graph.loop(loop).begin];
        first = std::min(first, rank[op]);
      }
      for (const OpId before : graph.predecessors(op)) {
        if (joins(before, op)) ++missing_[head(op)];
      }
    }
    order_.reserve(graph.op_count());
    run_body(LoopId());
  }
  std::vector<OpId> take() && { return std::move(order_); }

 private:
  std::size_t body(OpId op) const { return static_cast<std::size_t>(graph_.loop_of(op).index + 1); }
  // A loop counts as its begin.
  OpId head(OpId op) const {
    const LoopId loop = graph_.bounded_loop(op);
    return loop.valid() ? graph_.loop(loop).begin : op;
  }
  bool joins(OpId before, OpId after) const {
    return graph_.loop_of(before) == graph_.loop_of(after) && head(before) != head(after);
  }

  void run_body(LoopId loop) {
    using Entry = std::pair<int, OpId>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (const OpId op : members_[static_cast<std::size_t>(loop.index + 1)]) {
      if (head(op) == op && missing_[op] == 0) ready.emplace(rank_[op], op);
    }
    const auto run = [&](OpId op) {
      order_.push_back(op);
      for (const OpId next : graph_.successors(op)) {
        if (joins(op, next) && --missing_[head(next)] == 0) {
          ready.emplace(rank_[head(next)], head(next));
        }
      }
    };
    while (!ready.empty()) {
      const OpId op = ready.top().second;
      ready.pop();
      run(op);
      const LoopId inner = graph_.bounded_loop(op);
      if (!inner.valid()) continue;
      run_body(inner);
      run(graph_.loop(inner).end);
    }
  }

  const Graph& graph_;
  IdMap<OpId, int> rank_;
  IdMap<OpId, int> missing_;
  std::vector<std::vector<OpId>> members_;  // by body: the step itself, then by loop
  std::vector<OpId> order_;
};

// What was there before ranks as it stood; what is new, as what stands before it in program order.
std::vector<OpId> carried_order(const SplitProblem& from, const std::vector<OpId>& order,
                                const Graph& to) {
  IdMap<OpId, int> position(order.size(), 0);
  for (std::size_t k = 0; k < order.size(); ++k) position[order[k]] = static_cast<int>(k);
  IdMap<OpId, int> rank;
  int present = 0;
  for (std::size_t o = 0; o < to.op_count(); ++o) {
    const auto found = from.by_name.find(unsplit_name(to.name(OpId(o))));
    if (!to.bounded_loop(OpId(o)).valid() && found != from.by_name.end()) {
      present = position[found->second];
    }
    // A loop ranks as its first operator, its end as that.
    rank.push_back(to.bounded_loop(OpId(o)).valid() ? static_cast<int>(order.size()) : present);
  }
  return order_bodies_by_rank(to, rank);
}

// ---- edits

std::string_view tensor_name(const Graph& graph, TensorId tensor) {
  return unsplit_name(graph.value(graph.tensor(tensor).value).name);
}

// Invalid if the reader does not read it there.
EdgeId carried_edge(const SplitProblem& from, EdgeId edge, const SplitProblem& to) {
  const OpId reader = from.graph.edge_op(edge);
  const auto found = to.by_name.find(unsplit_name(from.graph.name(reader)));
  if (found == to.by_name.end()) return {};
  const std::string_view name = tensor_name(from.graph, from.graph.edge_tensor(edge));
  EdgeId candidate = to.graph.first_edge(found->second);
  for (const TensorId read : to.graph.reads(found->second)) {
    if (tensor_name(to.graph, read) == name) return candidate;
    ++candidate.index;
  }
  return {};
}

// From an operator on that the other graph does not have: from the first chain on.
Mode carried_mode(const SplitProblem& from, Mode mode, const SplitProblem& to) {
  if (mode.kind() != Mode::recompute_late) return mode;
  const auto found = to.by_name.find(unsplit_name(from.graph.name(mode.late_from())));
  return found == to.by_name.end() ? Mode::recompute : Mode::late(found->second);
}

void carry_edit(EdgeId edge, Mode mode, Evaluator& evaluator) {
  if (!edge.valid() || !may_set_mode(evaluator, edge, mode)) return;
  const std::size_t mark = evaluator.mark();
  evaluator.set_mode(edge, mode);
  if (!evaluator.feasible()) evaluator.undo(mark);
}

}  // namespace

std::vector<OpId> order_bodies_by_rank(const Graph& graph, const IdMap<OpId, int>& rank) {
  return BodyOrder(graph, rank).take();
}

void carry_over(const SplitProblem& from, const Decisions& decisions, SplitProblem& to) {
  to.evaluator.load({carried_order(from, decisions.order, to.graph),
                     IdMap<EdgeId, Mode>(to.graph.edge_count(), Mode::keep)});
  for (std::size_t e = 0; e < decisions.modes.size(); ++e) {
    const Mode mode = decisions.modes[EdgeId(e)];
    if (mode == Mode::keep) continue;
    carry_edit(carried_edge(from, EdgeId(e), to), carried_mode(from, mode, to), to.evaluator);
  }
}

// ---- all of them

namespace {

// By the numbers of operators: of two choices that are isomorphic, each is a graph of its own.
uint64_t hash_of(std::span<const FissionRegion> regions) {
  uint64_t hash = regions.size();
  for (const FissionRegion& region : regions) {
    hash = combine(hash, static_cast<uint64_t>(region.part));
    for (const OpId op : region.operators) hash = combine(hash, static_cast<uint64_t>(op.index));
    hash = combine(hash, hash_of(region.children));
  }
  return hash;
}

}  // namespace

SplitProblems::SplitProblems(const Graph& source, const FissionGround& ground,
                             const DeviceProfile& profile, Bytes host_memory, bool exact)
    : source_(source),
      ground_(ground),
      profile_(profile),
      host_memory_(host_memory),
      exact_(exact) {}

std::shared_ptr<SplitProblem> SplitProblems::find(std::span<const FissionRegion> regions) {
  const uint64_t hash = hash_of(regions);
  const auto known = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.hash == hash && std::ranges::equal(entry.regions, regions);
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
  } else {
    entries_.push_front({hash, {regions.begin(), regions.end()}, make(regions)});
    if (entries_.size() > kKept) entries_.pop_back();
  }
  return entries_.front().problem;
}

std::shared_ptr<SplitProblem> SplitProblems::make(std::span<const FissionRegion> regions) const {
  if (regions.empty()) {
    return std::make_shared<SplitProblem>(source_, std::nullopt, profile_, host_memory_);
  }
  std::variant<Graph, std::string> made = ground_.split(regions);
  if (!std::holds_alternative<Graph>(made)) return nullptr;
  if (exact_ && adds_parts(std::get<Graph>(made))) return nullptr;
  return std::make_shared<SplitProblem>(source_, std::get<Graph>(std::move(made)), profile_,
                                        host_memory_);
}

}  // namespace magis
