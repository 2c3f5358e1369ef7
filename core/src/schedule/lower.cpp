// Decisions -> program. The first pass, here, decides which copy every use reads and where copies
// are made; the second, lifetimes.cpp, ends lifetimes and runs operators in place.
//
// A tensor is *held* from where it is made to the use after which the next use's mode lets go of
// it:
//   after a tensor is made by its own operator, and after each use in the order:
//       next use keep -> stays held;   recompute, recompute_anew, or no next use -> let go
//   after an operator for whose sake a chain made copies:
//       each copy stays held if the next use is keep or recompute; recompute_anew, or no next use
//       -> let go
// An output's own tensor is never let go. Letting go only says that no later use reads this copy.
#include <optional>
#include <utility>
#include <vector>

#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "schedule/lifetimes.h"

namespace magis {
namespace {

constexpr int kNotHeld = -1;

class CopyPlacement {
 public:
  CopyPlacement(const Graph& graph, const Decisions& decisions)
      : graph_(graph),
        decisions_(decisions),
        next_use_(graph.edge_count()),
        upcoming_(graph.tensors().size()),
        held_(graph.tensors().size(), kNotHeld),
        runs_of_(graph.op_count(), 0),
        chain_(graph.op_count()),
        recomputable_(recomputable_operators(graph)) {
    MAGIS_CHECK(decisions.order.size() == graph.op_count(),
                "order holds " << decisions.order.size() << " of " << graph.op_count());
    MAGIS_CHECK(decisions.modes.size() == graph.edge_count(),
                "modes hold " << decisions.modes.size() << " of " << graph.edge_count());
    for (auto op = decisions.order.rbegin(); op != decisions.order.rend(); ++op) {
      for_each_edge(*op, [&](EdgeId edge, TensorId tensor) {
        next_use_[edge] = std::exchange(upcoming_[tensor], edge);
      });
    }
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
      if (graph.tensor(TensorId(t)).is_input) held_[TensorId(t)] = 0;
    }
  }

  // Run statements alone; nothing if a use asks for what cannot run again.
  std::optional<std::vector<Statement>> place() {
    statements_.reserve(graph_.op_count());
    for (OpId op : decisions_.order) {
      if (!execute(op)) return std::nullopt;
    }
    return std::move(statements_);
  }

 private:
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
      let_go_unless_kept(made);
    }
    for_each_edge(op, [&](EdgeId edge, TensorId tensor) {
      upcoming_[tensor] = next_use_[edge];
      let_go_unless_kept(tensor);
    });
    for (TensorId copied : chain_results_) {
      const EdgeId next = upcoming_[copied];
      if (!next.valid() || decisions_.modes[next] == Mode::recompute_anew) {
        held_[copied] = kNotHeld;
      }
    }
    return true;
  }

  void let_go_unless_kept(TensorId tensor) {
    const Tensor& info = graph_.tensor(tensor);
    if (info.is_input || info.is_output) return;
    const EdgeId next = upcoming_[tensor];
    if (!next.valid() || decisions_.modes[next] != Mode::keep) held_[tensor] = kNotHeld;
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
        if (done != consumer) chain_[done] = {consumer, emit(done)};
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
        chain_results_.push_back(tensor);
        continue;
      }
      MAGIS_CHECK(runs_of_[producer] > 0,
                  "the order reads %" << name(tensor) << " before it is made");
      if (!recomputable_[producer] || !may_copy_for(graph_, producer, consumer)) return false;
      pending_.push_back({producer, 0});
    }
    return true;
  }

  // Appends a run of `op` that reads the held copies; returns which copy of the results it makes.
  int emit(OpId op) {
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
  };
  struct Pending {
    OpId op;
    std::size_t operand;  // the next one to look at
  };

  const Graph& graph_;
  const Decisions& decisions_;
  IdMap<EdgeId, EdgeId> next_use_;    // of the same tensor, in the order; invalid: none
  IdMap<TensorId, EdgeId> upcoming_;  // next use of each tensor
  IdMap<TensorId, int> held_;         // copy that a use would read now
  IdMap<OpId, int> runs_of_;
  IdMap<OpId, ChainRun> chain_;
  IdMap<OpId, uint8_t> recomputable_;
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
