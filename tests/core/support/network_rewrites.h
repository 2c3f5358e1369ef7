// Rewrites that merge and split matrix products and additions, as fixtures for scheduling.
#pragma once

#include <optional>

#include "support/matrix_network.h"
#include "support/random.h"

namespace magis::test {

// The network after one rewrite at a random place, none if nothing matches:
//   mm(x, v), mm(x, w)        ->  the slices of mm(x, cat(v, w))
//   mm(x, w)                  ->  cat of mm(x, left half of w), mm(x, right half of w)
//   mm(x, w)                  ->  mm(left half of x, upper half of w) + mm(right, lower)
//   mm(x, v) + mm(y, w)       ->  mm(cat(x, y), cat(v, w))
//   (a + b) + c               ->  a + (b + c)
// What remains keeps its ids; what is new names the item that it stands for.
std::optional<MatrixNetwork> rewrite_somewhere(const MatrixNetwork& network, Random& random);

}  // namespace magis::test
