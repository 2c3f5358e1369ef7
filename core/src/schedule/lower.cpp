// Decisions -> program. The first pass, here, decides which copy every use reads and where copies
// are made; the second, lifetimes.cpp, ends lifetimes and runs operators in place.
//
// A tensor is *held* from where it is made to the use after which the next use's mode lets go of
// it:
//   after a tensor is made by its own operator, and after each use in the order:
//       next use keep -> stays held;   any kind of recompute, or no next use -> let go
//   after an operator for whose sake a chain made copies:
//       each copy stays held if the next use is keep or recompute, or recompute_late and the
//       operator is not before the one that it names; recompute_anew, swap, or no next use -> let
//       go
// A next use in mode swap holds as keep does, but for the gap: the held copy is let go where the
// gap begins, and a copy loaded from the host is held from where it ends. An output's own tensor is
// never let go. Letting go only says that no later use reads this copy.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "schedule/gap_borders.h"
#include "schedule/lifetimes.h"

namespace magis {
namespace {

constexpr int kNotHeld = -1;

Statement about_a_copy(Statement::Kind kind, CopyRef copy) {
  Statement statement;
  statement.kind = kind;
  statement.copies = {copy};
  return statement;
}

class CopyPlacement {
 public:
  CopyPlacement(const Graph& graph, const Decisions& decisions)
      : graph_(graph),
        decisions_(decisions),
        next_use_(graph.edge_count()),
        upcoming_(graph.tensors().size()),
        held_(graph.tensors().size(), kNotHeld),
        made_at_(graph.tensors().size(), 0),
        on_host_(graph.tensors().size(), 0),
        loading_(graph.tensors().size(), 0),
        runs_of_(graph.op_count(), 0),
        position_(graph.op_count(), 0),
        chain_(graph.op_count()) {
    MAGIS_CHECK(decisions.order.size() == graph.op_count(),
                "order holds " << decisions.order.size() << " of " << graph.op_count());
    MAGIS_CHECK(decisions.modes.size() == graph.edge_count(),
                "modes hold " << decisions.modes.size() << " of " << graph.edge_count());
    for (std::size_t k = 0; k < decisions.order.size(); ++k) {
      position_[decisions.order[k]] = static_cast<int>(k);
    }
    for (auto op = decisions.order.rbegin(); op != decisions.order.rend(); ++op) {
      for_each_edge(*op, [&](EdgeId edge, TensorId tensor) {
        next_use_[edge] = std::exchange(upcoming_[tensor], edge);
      });
    }
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
      if (graph.tensor(TensorId(t)).is_input) held_[TensorId(t)] = 0;
    }
  }

  // Everything but free statements; nothing if a use asks for what cannot run again or be swapped.
  std::optional<std::vector<Statement>> place() {
    const std::optional<GapBorders> borders = gap_borders(graph_, decisions_);
    if (!borders) return std::nullopt;
    auto release = borders->releases.begin();
    auto load = borders->loads.begin();
    statements_.reserve(graph_.op_count());
    for (std::size_t k = 0; k < decisions_.order.size(); ++k) {
      const auto here = [&](auto border, const std::vector<GapBorder>& all) {
        return border != all.end() && static_cast<std::size_t>(border->position) == k;
      };
      for (; here(release, borders->releases); ++release) let_go_to_host(release->tensor);
      for (; here(load, borders->loads); ++load) begin_load(load->tensor);
      if (!execute(decisions_.order[k])) return std::nullopt;
    }
    return with_stores();
  }

 private:
  auto position_of() const {
    return [this](OpId op) { return position_[op]; };
  }

  template <class Visit>
  void for_each_edge(OpId op, Visit&& visit) const {
    EdgeId edge = graph_.first_edge(op);
    for (TensorId tensor : graph_.reads(op)) {
      visit(edge, tensor);
      ++edge.index;
    }
  }

  bool execute(OpId op) {
    chain_results_.clear();
    if (!make_missing_operands(op)) return false;
    emit(op);
    for (TensorId made : graph_.makes(op)) {
      held_[made] = 0;
      made_at_[made] = last_statement();
      let_go_unless_kept(made);
    }
    complete_loop_results(op);
    for_each_edge(op, [&](EdgeId edge, TensorId tensor) {
      upcoming_[tensor] = next_use_[edge];
      let_go_unless_kept(tensor);
    });
    for (TensorId copied : chain_results_) {
      const EdgeId next = upcoming_[copied];
      // A copy made in a gap for others: the next use loads its own.
      const auto stays = [&](Mode mode) {
        if (mode == Mode::swap) {
          return std::ranges::find(graph_.reads(op), copied) != graph_.reads(op).end();
        }
        return mode == Mode::keep || keeps_passing_copy(mode, position_[op], position_of());
      };
      if (!next.valid() || !stays(decisions_.modes[next])) held_[copied] = kNotHeld;
    }
    return true;
  }

  // ---- the host

  // What a loop puts together is complete where it ends.
  void complete_loop_results(OpId op) {
    const LoopId bounded = graph_.bounded_loop(op);
    if (!bounded.valid() || graph_.loop(bounded).end != op) return;
    for (TensorId made : graph_.makes(graph_.loop(bounded).begin)) {
      made_at_[made] = last_statement();
    }
  }

  void let_go_to_host(TensorId tensor) {
    const CopyRef held{tensor, held_[tensor]};
    MAGIS_CHECK(held.copy != kNotHeld, "%" << name(tensor) << " is released but not held");
    if (!on_host_[tensor]) {
      on_host_[tensor] = 1;
      stores_.push_back({made_at_[tensor], held});
    }
    statements_.push_back(about_a_copy(Statement::Kind::await, held));
    held_[tensor] = kNotHeld;
    loading_[tensor] = 0;
  }

  void begin_load(TensorId tensor) {
    MAGIS_CHECK(held_[tensor] == kNotHeld, "%" << name(tensor) << " is loaded while it is held");
    held_[tensor] = runs_of_[graph_.tensor(tensor).producer]++;
    loading_[tensor] = 1;
    statements_.push_back(about_a_copy(Statement::Kind::load, {tensor, held_[tensor]}));
  }

  // Operands that are on their way have to arrive before `op` runs.
  void await_operands(OpId op) {
    Statement await;
    await.kind = Statement::Kind::await;
    for (TensorId tensor : graph_.reads(op)) {
      if (std::exchange(loading_[tensor], 0)) await.copies.push_back({tensor, held_[tensor]});
    }
    if (!await.copies.empty()) statements_.push_back(std::move(await));
  }

  std::size_t last_statement() const { return statements_.size() - 1; }

  // Each store right after the statement that completes what it copies.
  std::vector<Statement> with_stores() {
    if (stores_.empty()) return std::move(statements_);
    std::ranges::stable_sort(stores_, {}, &Store::after);
    std::vector<Statement> all;
    all.reserve(statements_.size() + stores_.size());
    auto store = stores_.begin();
    for (std::size_t s = 0; s < statements_.size(); ++s) {
      all.push_back(std::move(statements_[s]));
      for (; store != stores_.end() && store->after == s; ++store) {
        all.push_back(about_a_copy(Statement::Kind::store, store->copy));
      }
    }
    return all;
  }

  void let_go_unless_kept(TensorId tensor) {
    const Tensor& info = graph_.tensor(tensor);
    if (info.is_input || info.is_output) return;
    const EdgeId next = upcoming_[tensor];
    const bool stays = next.valid() && holds(decisions_.modes[next]);
    if (!stays) held_[tensor] = kNotHeld;
  }

  // Runs again, depth first in operand order, whatever `consumer` needs and nobody holds. Each
  // operator runs at most once for one consumer; of its results those that are needed and not held
  // become the held copies.
  bool make_missing_operands(OpId consumer) {
    pending_.assign(1, {consumer, 0});
    while (!pending_.empty()) {
      auto& [op, operand] = pending_.back();
      const auto reads = graph_.reads(op);
      if (operand == reads.size()) {
        const OpId done = op;
        pending_.pop_back();
        if (done == consumer) continue;
        const int copy = emit(done);
        chain_[done] = {consumer, copy, last_statement()};
        continue;
      }
      const TensorId tensor = reads[operand];
      if (held_[tensor] != kNotHeld) {
        ++operand;
        continue;
      }
      const OpId producer = graph_.tensor(tensor).producer;
      if (chain_[producer].consumer == consumer) {
        held_[tensor] = chain_[producer].copy;
        made_at_[tensor] = chain_[producer].statement;
        chain_results_.push_back(tensor);
        continue;
      }
      MAGIS_CHECK(runs_of_[producer] > 0,
                  "the order reads %" << name(tensor) << " before it is made");
      if (!may_run_again(producer) || !may_copy_for(graph_, producer, consumer)) return false;
      pending_.push_back({producer, 0});
    }
    return true;
  }

  // It still finds what it read.
  bool may_run_again(OpId op) const {
    return recomputable(graph_, op) &&
           std::ranges::none_of(graph_.overwriters(op),
                                [&](OpId writer) { return runs_of_[writer] > 0; });
  }

  // Appends a run of `op` that reads the held copies; returns which copy of the results it makes.
  int emit(OpId op) {
    await_operands(op);
    Statement run;
    run.op = op;
    run.copy = runs_of_[op]++;
    run.operand_copies.reserve(graph_.reads(op).size());
    for (TensorId tensor : graph_.reads(op)) run.operand_copies.push_back(held_[tensor]);
    statements_.push_back(std::move(run));
    return statements_.back().copy;
  }

  const std::string& name(TensorId tensor) const {
    return graph_.value(graph_.tensor(tensor).value).name;
  }

  struct ChainRun {  // the last chain that ran an operator again
    OpId consumer;
    int copy = kNotHeld;
    std::size_t statement = 0;
  };
  struct Store {
    std::size_t after;  // statement
    CopyRef copy;
  };
  struct Pending {
    OpId op;
    std::size_t operand;  // the next one to look at
  };

  const Graph& graph_;
  const Decisions& decisions_;
  IdMap<EdgeId, EdgeId> next_use_;        // of the same tensor, in the order; invalid: none
  IdMap<TensorId, EdgeId> upcoming_;      // next use of each tensor
  IdMap<TensorId, int> held_;             // copy that a use would read now
  IdMap<TensorId, std::size_t> made_at_;  // statement that completed it
  IdMap<TensorId, uint8_t> on_host_;
  IdMap<TensorId, uint8_t> loading_;  // the held copy is on its way
  std::vector<Store> stores_;
  IdMap<OpId, int> runs_of_;
  IdMap<OpId, int> position_;
  IdMap<OpId, ChainRun> chain_;
  std::vector<TensorId> chain_results_;
  std::vector<Pending> pending_;
  std::vector<Statement> statements_;
};

}  // namespace

std::optional<Program> lower(const Graph& graph, const Decisions& decisions) {
  std::optional<std::vector<Statement>> runs = CopyPlacement(graph, decisions).place();
  if (!runs) return std::nullopt;
  return end_lifetimes(graph, *std::move(runs));
}

}  // namespace magis
