// Python spellings of literals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace magis {

std::string python_float(double value);            // "1.0", "1e-05", "float('inf')"
std::string python_string(std::string_view text);  // 'it\'s'
bool is_python_word(std::string_view name);        // a keyword or a builtin
bool is_python_keyword(std::string_view name);
std::string comma_separated(const std::vector<std::string>& parts);

}  // namespace magis
