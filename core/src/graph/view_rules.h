// What the rules of the views share: reading arguments, and saying why a view cannot be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"

namespace magis::view_rules {

// Why a view cannot be; derive_view catches it.
struct NoView {
  std::string reason;
};

// "[2,3]"
std::string list_text(const std::vector<int64_t>& items);
// The argument at `position` or of that keyword, or `otherwise` if it is absent or none.
int64_t integer(const Call& call, std::size_t position, std::string_view keyword,
                std::optional<int64_t> otherwise = std::nullopt);
std::vector<int64_t> integers(const Call& call, std::size_t position, std::string_view keyword);
// A dimension counted from the end if negative; `rank` to choose from (a scalar counts as one).
std::size_t dimension(int64_t number, std::size_t rank);
// Products that a text can make too large to represent.
int64_t times(int64_t a, int64_t b);
int64_t count_elements(const Shape& shape);

// view.dtype, view_as_real, view_as_complex
Type derive_dtype(const Call& call, Type type);
Type derive_view_as_real(Type type);
Type derive_view_as_complex(Type type);

}  // namespace magis::view_rules
