// Finds where the left side of a rule stands in a graph.
#pragma once

#include <vector>

#include "transform/rules/binding.h"
#include "transform/term_graph.h"

namespace magis {

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
