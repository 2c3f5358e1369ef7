// Reads what rules say of lengths, shapes and numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/lexer.h"
#include "transform/rules/rule.h"

namespace magis {

// Of the rule that is being read: names are its own.
class ExpressionParser {
 protected:
  ExpressionParser(std::string_view text, std::string_view file_name) : lexer_(text, file_name) {}

  // [m, *S, 2*n]; where names are introduced, unknown ones are new.
  SymbolicShape parse_shape(bool introduces);
  Polynomial parse_length() { return parse_length(left_); }
  NumberExpr parse_number();
  std::vector<int64_t> parse_dims();
  static std::optional<int> index_of(const std::vector<std::string>& names,
                                     const std::string& name);

  Lexer lexer_;
  Rule rule_;
  bool left_ = true;

 private:
  Polynomial parse_length(bool introduces);
  Polynomial parse_length_product(bool introduces);
  Polynomial parse_length_factor(bool introduces);
  NumberExpr parse_number_product();
  NumberExpr parse_number_factor();
};

}  // namespace magis
