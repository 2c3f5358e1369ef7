// The canonical text, piece by piece; programs print their graph and go on.
#pragma once

#include <string>

#include "magis/graph/graph.h"

namespace magis {

struct PrintOptions {
  bool meta = true;   // meta lines
  bool sites = true;  // site lines, and the sites of operators
};
std::string print_graph(const Graph& graph, const PrintOptions& options);

// The shortest decimal that reads back as the same double, spelled as Python does; always with one
// of . e inf nan.
std::string print_real(double number);

}  // namespace magis
