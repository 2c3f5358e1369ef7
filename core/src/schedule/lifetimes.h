// Second pass of lowering: where every copy dies, and which operators therefore run in place.
#pragma once

#include <span>
#include <vector>

#include "magis/schedule/program.h"

namespace magis {

// `runs` holds run statements alone, each operand naming a copy made earlier. Returns them with
// `over` set wherever the operator may run in place, each followed by one free of what dies there:
// operands in edge order, then results that nobody reads.
Program end_lifetimes(const Graph& graph, std::vector<Statement> runs);

}  // namespace magis
