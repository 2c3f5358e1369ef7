// Operators that add an operand to a sum (addmm's first operand, a convolution's bias). Where a
// region splits the sum, its parts leave the operand out, and it is added to what they add up to.
#pragma once

#include <optional>

#include "magis/graph/axes.h"
#include "magis/graph/graph.h"

namespace magis {

// The operand that `op` adds once (AxisSignature::added_once).
struct Addend {
  std::size_t argument = 0;  // its position
  std::size_t operand = 0;   // its row in the signature
  Arg scale;                 // what it is multiplied by; none: 1
  // The operator can do without it; else it reads zeros in its place.
  bool droppable = false;
  // How many dimensions of the result come after its last one: an image's, for a bias per channel.
  std::size_t dimensions_behind = 0;
};

// Nothing if there is no such operand, or it counts for nothing (addmm with beta 0).
std::optional<Addend> find_addend(const Graph& graph, OpId op, const AxisSignature& signature);

// `op`, whose arguments may have been renewed, without its operand. Requires addend.droppable.
Operator without(const Addend& addend, Operator op);

}  // namespace magis
