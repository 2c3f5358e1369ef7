#include "schedule/lifetimes.h"

#include <algorithm>
#include <utility>

namespace magis {
namespace {

// The statement after which nobody reads a copy, for every copy of every tensor.
class LastUses {
 public:
  LastUses(const Graph& graph, std::span<const Statement> runs) : graph_(graph) {
    std::vector<int> copies(graph.op_count(), 0);
    for (const Statement& run : runs) {
      int& count = copies[static_cast<std::size_t>(run.op.index)];
      count = std::max(count, run.copy + 1);
    }
    first_slot_ = IdMap<TensorId, std::size_t>(graph.tensors().size(), 0);
    std::size_t slots = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
      for (TensorId tensor : graph.makes(OpId(i))) {
        first_slot_[tensor] = slots;
        slots += static_cast<std::size_t>(copies[i]);
      }
    }
    last_use_.assign(slots, 0);
    for (std::size_t s = 0; s < runs.size(); ++s) record(runs[s], s);
  }

  // Of a copy that is read or made by statement `s`. Inputs and outputs live to the end.
  bool dies_at(CopyRef copy, std::size_t s) const {
    const Tensor& tensor = graph_.tensor(copy.tensor);
    if (tensor.is_input || (tensor.is_output && copy.copy == 0)) return false;
    return last_use_[slot(copy)] == s;
  }

 private:
  void record(const Statement& run, std::size_t s) {
    for (TensorId made : graph_.makes(run.op)) last_use_[slot({made, run.copy})] = s;
    const std::span<const TensorId> reads = graph_.reads(run.op);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (!graph_.tensor(reads[i]).is_input) last_use_[slot({reads[i], run.operand_copies[i]})] = s;
    }
  }
  std::size_t slot(CopyRef copy) const {
    return first_slot_[copy.tensor] + static_cast<std::size_t>(copy.copy);
  }

  const Graph& graph_;
  IdMap<TensorId, std::size_t> first_slot_;
  std::vector<std::size_t> last_use_;
};

// The first admissible choice whose operand dies here.
void choose_in_place(const Graph& graph, const LastUses& last_uses, std::size_t s, Statement& run) {
  for (const Graph::InPlaceChoice& choice : graph.in_place_choices(run.op)) {
    const int position = choice.edge.index - graph.first_edge(run.op).index;
    const CopyRef operand{graph.edge_tensor(choice.edge),
                          run.operand_copies[static_cast<std::size_t>(position)]};
    if (!last_uses.dies_at(operand, s)) continue;
    run.over = position;
    run.over_argument = choice.argument;
    return;
  }
}

std::vector<CopyRef> deaths(const Graph& graph, const LastUses& last_uses, std::size_t s,
                            const Statement& run) {
  std::vector<CopyRef> dead;
  const std::span<const TensorId> reads = graph.reads(run.op);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const CopyRef operand{reads[i], run.operand_copies[i]};
    if (static_cast<int>(i) != run.over && last_uses.dies_at(operand, s)) dead.push_back(operand);
  }
  for (TensorId made : graph.makes(run.op)) {
    if (last_uses.dies_at({made, run.copy}, s)) dead.push_back({made, run.copy});
  }
  return dead;
}

}  // namespace

Program end_lifetimes(const Graph& graph, std::vector<Statement> runs) {
  const LastUses last_uses(graph, runs);
  Program program;
  program.statements.reserve(2 * runs.size());
  for (std::size_t s = 0; s < runs.size(); ++s) {
    Statement& run = runs[s];
    choose_in_place(graph, last_uses, s, run);
    std::vector<CopyRef> dead = deaths(graph, last_uses, s, run);
    program.statements.push_back(std::move(run));
    if (dead.empty()) continue;
    Statement release;
    release.kind = Statement::Kind::free;
    release.freed = std::move(dead);
    program.statements.push_back(std::move(release));
  }
  return program;
}

}  // namespace magis
