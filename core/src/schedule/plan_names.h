// How plans name operators and copies: shared by the printer, the parser and messages.
#pragma once

#include <string>

#include "magis/schedule/program.h"

namespace magis {

// "mm" for the original, "mm.2" for a copy.
std::string copy_name(const Graph& graph, CopyRef copy);
// One statement as plan text, without a line end. Prints whatever it can of an invalid one.
std::string to_text(const Graph& graph, const Statement& statement);

}  // namespace magis
