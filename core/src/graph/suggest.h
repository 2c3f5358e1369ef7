// How alike two names are.
#pragma once

#include <cstddef>
#include <string_view>

namespace magis {

// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace magis
