// Finds where the left side of a rule stands in a graph.
#pragma once

#include <optional>
#include <vector>

#include "transform/rules/rule.h"
#include "transform/rules/words.h"
#include "transform/term_graph.h"

namespace magis {

// What the names of a rule stand for.
struct Binding {
  std::vector<ValueId> nodes;  // of the left side
  std::vector<std::optional<double>> numbers;
  std::vector<std::optional<Arg>> attributes;
  std::vector<std::vector<ValueId>> sequences;
  SymbolValues symbols;

  explicit Binding(const Rule& rule);
};

double evaluate(const NumberExpr& expr, const Binding& binding);
// An argument of a kind that names no tensors and no dimensions, as a graph has it.
Arg plain_argument(ArgKind kind, const PatternArg& arg, const Binding& binding);
Arg as_arg(ArgList list);

class PatternMatcher {
 public:
  // `rule` has to outlive it.
  explicit PatternMatcher(const Rule& rule);

  // Nodes of the left side that none of its nodes reads; the first is where matching starts.
  const std::vector<int>& tops() const { return tops_; }
  // The longest way from a top to a node, in steps along operands.
  int depth() const;
  // Every way in which the first top may be what `anchor` makes. Operands have one floating dtype.
  std::vector<Binding> match(const TermGraph& terms, TermId anchor) const;

 private:
  const Rule& rule_;
  std::vector<int> tops_;
};

}  // namespace magis
