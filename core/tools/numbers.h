// Numbers as magis-opt's options spell them. What is none, or cannot be counted in, is a UserError.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "magis/base/error.h"
#include "magis/base/units.h"

namespace magis {

// Not negative, and finite.
template <class Number>
Number parse_number(std::string_view option, std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range || std::isinf(static_cast<double>(number))) {
    throw UserError(std::string(option) + " is out of range: \"" + std::string(text) + "\"");
  }
  if (error != std::errc() || end != text.data() + text.size() || !(number >= Number(0))) {
    throw UserError(std::string(option) + " needs a number, not \"" + std::string(text) + "\"");
  }
  return number;
}

// "8GiB", "8 gb", "123".
Bytes parse_bytes(std::string_view option, const std::string& text);
// The same, not 0, or a share of `baseline`: "40%".
Bytes parse_memory_limit(const std::string& text, Bytes baseline);

}  // namespace magis
