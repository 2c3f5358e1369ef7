#include "magis/schedule/undo.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "schedule/lifetimes.h"

namespace magis {
namespace {

class Undoing {
 public:
  Undoing(const Graph& graph, const Undone& undone)
      : graph_(graph), undone_(undone), copies_of_(graph.op_count(), 0) {}

  void step(const Statement& statement) {
    switch (statement.kind) {
      case Statement::Kind::run:
        return run(statement);
      case Statement::Kind::store:
        return store(statement);
      case Statement::Kind::load:
        return load(statement);
      case Statement::Kind::await:
        return keep(statement);
      case Statement::Kind::free:
        return;  // lifetimes end anew
    }
  }

  std::vector<Statement> take() { return std::move(statements_); }

 private:
  void run(Statement statement) {
    const bool again = statement.copy > 0;
    if (again && undone_.runs[statement.op]) {
      for (TensorId made : graph_.makes(statement.op)) {
        stands_for_[{made, statement.copy}] = now({made, 0}).copy;
      }
      return;
    }
    const auto reads = graph_.reads(statement.op);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      statement.operand_copies[i] = now({reads[i], statement.operand_copies[i]}).copy;
    }
    statement.over = statement.over_argument = -1;
    const int copy = copies_of_[statement.op]++;
    if (copy != statement.copy) {
      for (TensorId made : graph_.makes(statement.op)) stands_for_[{made, statement.copy}] = copy;
    }
    statement.copy = copy;
    statements_.push_back(std::move(statement));
  }

  void store(const Statement& statement) {
    for (const CopyRef& copy : statement.copies) stored_[copy.tensor] = now(copy).copy;
    keep(statement);
  }

  void load(Statement statement) {
    std::vector<CopyRef> loaded;
    for (const CopyRef& copy : statement.copies) {
      if (undone_.swaps[copy.tensor]) {
        stands_for_[copy] = stored_.at(copy.tensor);
        continue;
      }
      const int number = copies_of_[graph_.tensor(copy.tensor).producer]++;
      stands_for_[copy] = number;
      loaded.push_back({copy.tensor, number});
    }
    statement.copies = std::move(loaded);
    append(std::move(statement));
  }

  // A store or an await, but for the tensors that stay on the device.
  void keep(Statement statement) {
    std::erase_if(statement.copies, [&](CopyRef copy) { return undone_.swaps[copy.tensor] != 0; });
    for (CopyRef& copy : statement.copies) copy = now(copy);
    append(std::move(statement));
  }

  void append(Statement statement) {
    if (!statement.copies.empty()) statements_.push_back(std::move(statement));
  }

  // What a copy of the program is called now; inputs have one, made by nobody.
  CopyRef now(CopyRef copy) const {
    const auto found = stands_for_.find(copy);
    return {copy.tensor, found == stands_for_.end() ? copy.copy : found->second};
  }

  const Graph& graph_;
  const Undone& undone_;
  std::map<CopyRef, int> stands_for_;
  std::map<TensorId, int> stored_;
  IdMap<OpId, int> copies_of_;
  std::vector<Statement> statements_;
};

}  // namespace

Program undo(const Graph& graph, const Program& program, const Undone& undone) {
  Undoing undoing(graph, undone);
  for (const Statement& statement : program.statements) undoing.step(statement);
  return end_lifetimes(graph, undoing.take());
}

}  // namespace magis
