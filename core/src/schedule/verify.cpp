#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "magis/base/error.h"
#include "magis/schedule/program.h"
#include "schedule/plan_names.h"

namespace magis {
namespace {

// Executes a program on paper: which copies exist at each moment.
class Execution {
 public:
  explicit Execution(const Graph& graph)
      : graph_(graph),
        copies_run_(graph.op_count()),
        alive_(graph.tensors().size()),
        on_host_(graph.tensors().size(), 0) {}

  void step(std::size_t number, const Statement& statement) {
    number_ = number;
    statement_ = &statement;
    if (statement.kind == Statement::Kind::run) return run(statement);
    for (const CopyRef& copy : statement.copies) {
      if (statement.kind == Statement::Kind::free) end_lifetime(copy);
      if (statement.kind == Statement::Kind::store) store(copy);
      if (statement.kind == Statement::Kind::load) load(copy);
      if (statement.kind == Statement::Kind::await) await(copy);
    }
  }

  void finish() const {
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
      if (!has_run(OpId(i))) {
        throw UserError("the program never runs %" + graph_.name(OpId(i)));
      }
    }
  }

 private:
  void run(const Statement& statement) {
    check_may_run(statement);
    const auto reads = graph_.reads(statement.op);
    require(statement.operand_copies.size() == reads.size(), [&](std::ostream& out) {
      out << "names " << statement.operand_copies.size() << " operands, the operator reads "
          << reads.size();
    });
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const CopyRef operand{reads[i], statement.operand_copies[i]};
      require_alive(operand, "reads");
      require(!is_loading(operand), [&](std::ostream& out) {
        out << "reads %" << copy_name(graph_, operand) << ", which is still on its way";
      });
    }
    follow_loops(statement);
    if (statement.over >= 0) overwrite(statement);
    copies_run_[statement.op].insert(statement.copy);
    for (TensorId made : graph_.makes(statement.op)) alive_[made].insert(statement.copy);
  }

  void check_may_run(const Statement& statement) const {
    const OpId op = statement.op;
    require(!copies_run_[op].contains(statement.copy),
            [&](std::ostream& out) { out << "runs a second time"; });
    if (statement.copy != 0) {
      require(loop_ == graph_.loop_of(op), [&](std::ostream& out) {
        out << "makes a copy for every iteration of another loop";
      });
      require(recomputable(graph_, op), [&](std::ostream& out) {
        out << "makes a copy, but " << graph_.op(op).info->name << " must run exactly once";
      });
      for (OpId writer : graph_.overwriters(op)) {
        require(!has_run(writer), [&](std::ostream& out) {
          out << "makes a copy after %" << graph_.name(writer) << ", which writes to what it reads";
        });
      }
      return;
    }
    for (OpId before : graph_.predecessors(op)) {
      require(has_run(before), [&](std::ostream& out) {
        out << "runs before %" << graph_.name(before) << ", which must come first";
      });
    }
  }

  void overwrite(const Statement& statement) {
    const auto position = static_cast<std::size_t>(statement.over);
    const auto reads = graph_.reads(statement.op);
    const EdgeId edge(graph_.first_edge(statement.op).index + statement.over);
    const bool allowed = position < reads.size() &&
                         std::ranges::any_of(graph_.in_place_choices(statement.op), [&](auto& c) {
                           return c.edge == edge && c.argument == statement.over_argument;
                         });
    require(allowed, [&](std::ostream& out) {
      out << "cannot run over ";
      if (position < reads.size()) {
        out << '%' << copy_name(graph_, {reads[position], statement.operand_copies[position]});
      } else {
        out << "operand " << position;
      }
    });
    end_lifetime({reads[position], statement.operand_copies[position]});
  }

  void end_lifetime(CopyRef copy) {
    require_alive(copy, "ends the lifetime of");
    const Tensor& tensor = graph_.tensor(copy.tensor);
    require(!tensor.is_input, [&](std::ostream& out) {
      out << "ends the lifetime of %" << copy_name(graph_, copy) << ", which is an input";
    });
    require(is_made_here(copy.tensor), [&](std::ostream& out) {
      out << "ends the lifetime of %" << copy_name(graph_, copy) << ", which every iteration needs";
    });
    require(!tensor.is_output || copy.copy != 0, [&](std::ostream& out) {
      out << "ends the lifetime of %" << copy_name(graph_, copy) << ", which is an output";
    });
    require(!in_flight_.contains(copy), [&](std::ostream& out) {
      out << "ends the lifetime of %" << copy_name(graph_, copy)
          << ", which is still on its way; an await is missing";
    });
    alive_[copy.tensor].erase(copy.copy);
  }

  void store(CopyRef copy) {
    require_alive(copy, "stores");
    require_swappable(copy.tensor);
    require(!is_loading(copy) && !on_host_[copy.tensor],
            [&](std::ostream& out) { out << "the host has it already"; });
    on_host_[copy.tensor] = 1;
    in_flight_.emplace(copy, Statement::Kind::store);
  }

  void load(CopyRef copy) {
    require_swappable(copy.tensor);
    const OpId producer = graph_.tensor(copy.tensor).producer;
    require(on_host_[copy.tensor] != 0,
            [&](std::ostream& out) { out << "it was never stored in this body"; });
    require(copy.copy > 0 && !copies_run_[producer].contains(copy.copy),
            [&](std::ostream& out) { out << "there is a copy of that number already"; });
    copies_run_[producer].insert(copy.copy);
    alive_[copy.tensor].insert(copy.copy);
    in_flight_.emplace(copy, Statement::Kind::load);
  }

  void await(CopyRef copy) {
    require_alive(copy, "awaits");
    require(!graph_.tensor(copy.tensor).is_input,
            [&](std::ostream& out) { out << "an input stays where it is"; });
    require_made_here(copy.tensor);
    in_flight_.erase(copy);
  }

  bool is_loading(CopyRef copy) const {
    const auto found = in_flight_.find(copy);
    return found != in_flight_.end() && found->second == Statement::Kind::load;
  }

  void require_swappable(TensorId tensor) const {
    require(swappable(graph_, tensor), [&](std::ostream& out) {
      out << "%" << copy_name(graph_, {tensor, 0})
          << " is an input, an output or not dense in memory: it cannot leave for the host";
    });
    require_made_here(tensor);
  }

  void require_made_here(TensorId tensor) const {
    require(is_made_here(tensor), [&](std::ostream& out) {
      out << "%" << copy_name(graph_, {tensor, 0}) << " is made in another body, and stays there";
    });
  }

  void require_alive(CopyRef copy, const char* verb) const {
    const bool is_input = graph_.tensor(copy.tensor).is_input;
    const bool alive = is_input ? copy.copy == 0 : alive_[copy.tensor].contains(copy.copy);
    require(alive, [&](std::ostream& out) {
      const OpId producer = graph_.tensor(copy.tensor).producer;
      const bool made = !is_input && copies_run_[producer].contains(copy.copy);
      out << verb << " %" << copy_name(graph_, copy)
          << (made ? ", which is no longer there" : ", which has not been made");
    });
  }

  // The body of a loop is one stretch of statements, and all it makes ends inside.
  void follow_loops(const Statement& statement) {
    const OpId op = statement.op;
    const LoopId bounded = graph_.bounded_loop(op);
    const bool ends = bounded.valid() && graph_.loop(bounded).end == op;
    require(ends ? loop_ == bounded : loop_ == graph_.loop_of(op), [&](std::ostream& out) {
      out << (ends ? "ends loop " + graph_.loop(bounded).name + ", which is not the one around it"
                   : "stands in another loop than its operator");
    });
    if (bounded.valid()) loop_ = ends ? graph_.loop_of(op) : bounded;
    if (!ends) return;
    for (std::size_t t = 0; t < alive_.size(); ++t) {
      const OpId producer = graph_.tensor(TensorId(t)).producer;
      if (!producer.valid() || graph_.loop_of(producer) != bounded) continue;
      require(alive_[TensorId(t)].empty(), [&](std::ostream& out) {
        out << "leaves %" << copy_name(graph_, {TensorId(t), *alive_[TensorId(t)].begin()})
            << " of its last iteration";
      });
      on_host_[TensorId(t)] = 0;
    }
  }

  // What is made outside a loop serves all its iterations.
  bool is_made_here(TensorId tensor) const {
    const OpId producer = graph_.tensor(tensor).producer;
    return !producer.valid() || graph_.loop_of(producer) == loop_;
  }

  bool has_run(OpId op) const { return copies_run_[op].contains(0); }

  template <class Explain>
  void require(bool condition, Explain&& explain) const {
    if (condition) return;
    std::ostringstream out;
    out << "statement " << number_ + 1 << " of the program, \"" << to_text(graph_, *statement_)
        << "\": ";
    explain(out);
    throw UserError(out.str());
  }

  const Graph& graph_;
  IdMap<OpId, std::set<int>> copies_run_;
  IdMap<TensorId, std::set<int>> alive_;  // copies that exist now, of tensors that are not inputs
  std::map<CopyRef, Statement::Kind> in_flight_;  // of these: to the host (store), from it (load)
  IdMap<TensorId, uint8_t> on_host_;
  LoopId loop_;  // around the current statement
  std::size_t number_ = 0;
  const Statement* statement_ = nullptr;
};

}  // namespace

void verify(const Graph& graph, const Program& program) {
  Execution execution(graph);
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    execution.step(s, program.statements[s]);
  }
  execution.finish();
}

}  // namespace magis
