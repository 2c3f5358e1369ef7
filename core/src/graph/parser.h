// Reading graphs. What reads more than a graph from one text (a plan) starts here and goes on with
// the lexer that is handed back.
#pragma once

#include <string>
#include <string_view>

#include "graph/lexer.h"
#include "magis/graph/graph.h"

namespace magis {

struct ParsedGraph {
  Graph graph;
  Lexer rest;  // at the word `program`, or at the end of the file
};

// Reads the graph that `text` begins with. Throws UserError with file:line:column and a caret. Both
// texts must outlive the lexer.
ParsedGraph parse_graph_part(std::string_view text, std::string_view file_name);

// " (did you mean %embed?)", or nothing if no name of `graph` is close.
std::string suggest_value(const IdMap<ValueId, Value>& values, std::string_view unknown);

// A type as the text has it.
struct ParsedType {
  Type type;
  bool storage_given =
      false;  // `/<bytes>` was there; otherwise type.storage is the smallest possible
};
ParsedType parse_type(Lexer& lexer);

// What is wrong with a text that does not begin with `magis 1`: what it looks like instead, and how
// a graph file is made. Empty if it does begin so.
std::string foreign_text_message(std::string_view text);

// Operators of PyTorch that return an alias but are not views of this language, and what to write
// instead; empty for all others.
std::string_view canonical_spelling(std::string_view operator_name);

}  // namespace magis
