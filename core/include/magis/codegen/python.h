// A program as plain, readable Python: one function over ATen operators, with `del` after last use.
#pragma once

#include <string>
#include <vector>

#include "magis/schedule/program.h"

namespace magis {

// def step(inputs): takes the graph's inputs in order (constants included), returns its outputs in
// order. Requires verify(graph, program). `heading` becomes the module's docstring.
std::string emit_python(const Graph& graph, const Program& program, const std::string& heading);
// The line of that text, counted from 1, at which the code of each statement begins. A statement
// without code has the line at which the next one begins; of frees in a row the last has the code.
std::vector<int> python_lines(const Graph& graph, const Program& program,
                              const std::string& heading);

}  // namespace magis
