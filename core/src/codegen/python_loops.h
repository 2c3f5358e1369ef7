// Python statements for loops: what begins one, and what an iteration leaves in the loop's results.
#pragma once

#include <string>
#include <vector>

#include "codegen/python_expressions.h"

namespace magis {

// Lines that allocate the results of the loop that `run` begins, then the `for` line and what each
// iteration begins with; `body_line` is the index of the first line that belongs into the body.
struct LoopHead {
  std::vector<std::string> lines;
  std::size_t body_line = 0;
};
LoopHead loop_head(const Graph& graph, const PythonNames& names, const Statement& run);

// Lines for one of the operators that write to a loop's result; empty for all others.
std::vector<std::string> result_lines(const Graph& graph, const PythonNames& names,
                                      const Statement& run);

}  // namespace magis
