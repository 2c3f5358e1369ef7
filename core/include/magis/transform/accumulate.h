// The step that adds into gradients that are already there.
#pragma once

#include <span>
#include <string>

#include "magis/graph/graph.h"

namespace magis {

// Replaces each `output grad "<path>" %g` with path in `paths` by an input `grad %..._grad
// "<path>"` of the same type and an operator aten.add_.Tensor(%..._grad, %g) right after %g's
// producer: as eager's backward does, without a second copy of the gradient. Throws UserError
// naming a path that has no gradient output.
Graph accumulate_gradients(const Graph& graph, std::span<const std::string> paths);

}  // namespace magis
