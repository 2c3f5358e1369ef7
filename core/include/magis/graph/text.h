// The text language (ARCHITECTURE.md, "The text language"): parser and canonical printer of graphs.
// Strings have JSON's escapes. What reads a graph and then more from one text (a plan) uses
// parse_graph_part in core/src/graph/parser.h.
#pragma once

#include <string>
#include <string_view>

#include "magis/graph/graph.h"

namespace magis {

// Throws UserError "file:line:column: message", the line and a caret. Rejects text that holds a
// program, and a graph without outputs (a file that was cut off). A view may leave out its base's
// `/<bytes>`; sites of views are read and forgotten.
Graph parse_graph(std::string_view text, std::string_view file_name);
// Canonical: parse_graph(to_text(g)) equals g, and printing it again gives the same text. A view is
// printed right before its first reader.
std::string to_text(const Graph& graph);

// 64-bit content fingerprint of the canonical text without meta and sites.
uint64_t fingerprint(const Graph& graph);

// Throws InternalError if an invariant of Graph does not hold: ids in range, order topological,
// every view's recorded type equal to the one derived from its base, results of in-place choices
// equal in layout to the operand, outputs defined.
void verify(const Graph& graph);

}  // namespace magis
