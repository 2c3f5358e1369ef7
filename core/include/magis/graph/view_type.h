// What a view operator makes of its base: the rule for each view of the language (ARCHITECTURE.md,
// "The text language").
#pragma once

#include <string>
#include <variant>

#include "magis/graph/graph.h"

namespace magis {

// The view's type when `call` (whose first argument is the base) reads a base of type `base`,
// computed as PyTorch does, or why it cannot: "strides {1,4} of f32[4,3] do not allow the view
// [12]". Cost: linear in the number of dimensions.
std::variant<Type, std::string> derive_view(const Call& call, const Type& base);

// Equal dtype, shape, offset and storage, and equal strides along every axis longer than 1 (a
// stride that is never used does not count, nor do those of a tensor without elements).
bool same_layout(const Type& a, const Type& b);

}  // namespace magis
