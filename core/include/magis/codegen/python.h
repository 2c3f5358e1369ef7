// A program as plain, readable Python: one function over ATen operators, with `del` after last use.
#pragma once

#include <string>

#include "magis/schedule/program.h"

namespace magis {

// def step(inputs): takes the graph's inputs in order (constants included), returns its outputs in
// order. Requires verify(graph, program). `heading` becomes the module's docstring.
std::string emit_python(const Graph& graph, const Program& program, const std::string& heading);

}  // namespace magis
