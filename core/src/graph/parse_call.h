// The right-hand side of a statement: an operator's name and its arguments.
#pragma once

#include "graph/lexer.h"
#include "magis/graph/builder.h"

namespace magis {

// The entry for the operator that `token` names. Fails if it is no operator, or an alias that has
// no place in this language.
const OpInfo& operator_named(const Lexer& lexer, const Token& token);
// "(<args>)" into call.args and call.kwargs; call.info says which arguments are written to.
void parse_arguments(Lexer& lexer, const GraphBuilder& builder, Call& call);
// A value that can be read at this point.
ValueId parse_read(Lexer& lexer, const GraphBuilder& builder);

}  // namespace magis
