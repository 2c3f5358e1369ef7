// What rules read from calls.
#pragma once

#include <optional>

#include "transform/term_graph.h"

namespace magis {

ValueId first_operand(const Term& term);
// A literal float or integer.
std::optional<double> number_value(const Arg& arg);

// Of a tensor's multiple: what it is multiplied by, not 0.
std::optional<double> factor_of(const Term& term);

struct Slice {
  ValueId base;
  int64_t dim, begin, end;  // counted from the front, within the base
};
// Nothing if `term`, a slice, skips elements.
std::optional<Slice> slice_of(const TermGraph& terms, const Term& term);
// Of a concatenation: along which dimension, counted from the front.
int64_t concatenated_dim(const TermGraph& terms, const Term& cat);

}  // namespace magis
