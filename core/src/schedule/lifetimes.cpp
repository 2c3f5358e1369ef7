#include "schedule/lifetimes.h"

#include <algorithm>
#include <utility>

namespace magis {
namespace {

// Copies that a statement names and that end with it, if with nothing later: those it reads (or
// stores, awaits), then those it makes (or loads).
template <class Visit>
void for_each_copy(const Graph& graph, const Statement& statement, Visit&& visit) {
  for (const CopyRef& copy : statement.copies) visit(copy);
  if (statement.kind != Statement::Kind::run) return;
  const std::span<const TensorId> reads = graph.reads(statement.op);
  for (std::size_t i = 0; i < reads.size(); ++i) visit({reads[i], statement.operand_copies[i]});
  for (TensorId made : graph.makes(statement.op)) visit({made, statement.copy});
}

// The statement after which nobody needs a copy, for every copy of every tensor.
class LastUses {
 public:
  LastUses(const Graph& graph, std::span<const Statement> statements) : graph_(graph) {
    IdMap<OpId, int> copies(graph.op_count(), 0);
    const auto count = [&](OpId producer, int copy) {
      copies[producer] = std::max(copies[producer], copy + 1);
    };
    for (const Statement& statement : statements) {
      if (statement.kind == Statement::Kind::run) count(statement.op, statement.copy);
      for (const CopyRef& copy : statement.copies) {
        count(graph.tensor(copy.tensor).producer, copy.copy);
      }
    }
    first_slot_ = IdMap<TensorId, std::size_t>(graph.tensors().size(), 0);
    std::size_t slots = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
      for (TensorId tensor : graph.makes(OpId(i))) {
        first_slot_[tensor] = slots;
        slots += static_cast<std::size_t>(copies[OpId(i)]);
      }
    }
    last_use_.assign(slots, 0);
    for (std::size_t s = 0; s < statements.size(); ++s) {
      for_each_copy(graph, statements[s], [&](CopyRef copy) {
        if (!graph.tensor(copy.tensor).is_input) last_use_[slot(copy)] = s;
      });
    }
  }

  // Of a copy that statement `s` names. Inputs and outputs live to the end.
  bool dies_at(CopyRef copy, std::size_t s) const {
    const Tensor& tensor = graph_.tensor(copy.tensor);
    if (tensor.is_input || (tensor.is_output && copy.copy == 0)) return false;
    return last_use_[slot(copy)] == s;
  }

 private:
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
                            const Statement& statement) {
  std::vector<CopyRef> dead;
  int position = 0;
  for_each_copy(graph, statement, [&](CopyRef copy) {
    const bool overwritten = position++ == statement.over;
    if (!overwritten && last_uses.dies_at(copy, s)) dead.push_back(copy);
  });
  return dead;
}

}  // namespace

Program end_lifetimes(const Graph& graph, std::vector<Statement> statements) {
  const LastUses last_uses(graph, statements);
  Program program;
  program.statements.reserve(2 * statements.size());
  for (std::size_t s = 0; s < statements.size(); ++s) {
    Statement& statement = statements[s];
    if (statement.kind == Statement::Kind::run) choose_in_place(graph, last_uses, s, statement);
    std::vector<CopyRef> dead = deaths(graph, last_uses, s, statement);
    program.statements.push_back(std::move(statement));
    if (dead.empty()) continue;
    Statement release;
    release.kind = Statement::Kind::free;
    release.copies = std::move(dead);
    program.statements.push_back(std::move(release));
  }
  return program;
}

}  // namespace magis
