// The left side of a rule as a graph of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "magis/graph/graph.h"
#include "transform/rules/rule.h"

namespace magis {

// With random lengths, numbers and attributes. Each root is read by an operator, whose result is an
// output. Nothing if these lengths do not go together.
std::optional<Graph> left_side(const Rule& rule, uint64_t seed);

}  // namespace magis
