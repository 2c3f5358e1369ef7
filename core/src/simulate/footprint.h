// The running count of live bytes that the recording simulator and the fast one share.
#pragma once

#include <algorithm>

#include "magis/simulate/simulate.h"

namespace magis {

class LiveBytes {
 public:
  LiveBytes(const Graph& graph, const CostTable& costs) : graph_(graph), costs_(costs) {}

  // Bytes live while `run` executes: what was live, its results, its scratch. A first result that
  // takes over its operand's storage adds nothing.
  Bytes run(const Statement& run) {
    const auto made = graph_.makes(run.op);
    for (std::size_t i = run.over < 0 ? 0 : 1; i < made.size(); ++i) live_ += costs_.bytes[made[i]];
    return live_ + costs_.scratch[run.op];
  }
  void free(const Statement& statement) {
    for (const CopyRef& copy : statement.copies) live_ -= costs_.bytes[copy.tensor];
  }
  void load(const Statement& statement) {
    for (const CopyRef& copy : statement.copies) live_ += costs_.bytes[copy.tensor];
  }
  // Bytes live after a statement that is no run: free and load change them.
  Bytes other(const Statement& statement) {
    if (statement.kind == Statement::Kind::free) free(statement);
    if (statement.kind == Statement::Kind::load) load(statement);
    return live_;
  }

 private:
  const Graph& graph_;
  const CostTable& costs_;
  Bytes live_ = 0;
};

}  // namespace magis
