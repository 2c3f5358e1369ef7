// Second pass of lowering: where every copy dies, and which operators therefore run in place.
#pragma once

#include <span>
#include <vector>

#include "magis/schedule/program.h"

namespace magis {

// `statements` holds everything but free statements, each copy made before it is named. Returns
// them with `over` set wherever an operator may run in place, each followed by one free of what
// dies there: operands in edge order, then results that nobody reads; what it awaits.
Program end_lifetimes(const Graph& graph, std::vector<Statement> statements);

}  // namespace magis
