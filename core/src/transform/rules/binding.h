// What matching found, and what the other side of a rule is made with.
#pragma once

#include <optional>
#include <vector>

#include "transform/rules/rule.h"
#include "transform/rules/words.h"

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
// beta and alpha where they are not 1, and what every call of the word has.
KeywordArgs keywords_of(const PatternNode& node, const Binding& binding);
// An argument of a kind that names no tensors and no dimensions, as a graph has it.
Arg plain_argument(ArgKind kind, const PatternArg& arg, const Binding& binding);
Arg as_arg(ArgList list);

}  // namespace magis
