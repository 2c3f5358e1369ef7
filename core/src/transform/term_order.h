// The order in which a rewritten graph is written down.
#pragma once

#include <vector>

#include "transform/term_graph.h"

namespace magis {

// All live terms, each after what it reads, otherwise by place: what did not change keeps program
// order. Operators that draw random numbers keep their order, and what reads an input that is
// written to keeps to its side of the writer. Throws InternalError if there is a cycle.
std::vector<TermId> emission_order(const TermGraph& terms);

}  // namespace magis
