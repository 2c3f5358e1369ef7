// What a loop's body looks like in its last iteration, where that walks less than a full part.
#pragma once

#include <map>
#include <optional>

#include "magis/graph/axes.h"
#include "magis/graph/graph.h"

namespace magis {

// Types and lengths of one loop's body when the loop walks its last part, as far as the operators'
// axis signatures say; the loops around walk full parts.
class ShortPart {
 public:
  // Requires that the loop's last part is shorter. Cost: the signatures of its body's operators.
  ShortPart(const Graph& graph, LoopId loop);

  // Nothing if it is not known.
  std::optional<Type> type(ValueId value) const;
  int64_t length(const PartLength& length) const;

 private:
  void enter_results(OpId op);
  bool follow_operands(const Operator& op, AxisSignature& signature) const;
  bool follow_lengths(const Operator& op, AxisSignature& signature) const;
  bool is_in_body(OpId op) const;

  const Graph& graph_;
  LoopId loop_;
  std::map<ValueId, std::optional<Type>> results_;  // of the body's operators
};

}  // namespace magis
