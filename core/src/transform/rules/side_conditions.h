// What has to hold of a match beyond its operators.
#pragma once

#include "transform/rules/binding.h"
#include "transform/term_graph.h"

namespace magis {

// Of a binding of the whole left side: one floating dtype that the rule is good for, the shapes
// that the rule says, no input that is written to, different roots, and the rule's conditions.
bool holds(const Rule& rule, const TermGraph& terms, const Binding& binding);

}  // namespace magis
