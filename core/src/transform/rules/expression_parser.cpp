#include "transform/rules/expression_parser.h"

#include <algorithm>

namespace magis {

std::optional<int> ExpressionParser::index_of(const std::vector<std::string>& names,
                                              const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

// [m, *S, 2*n]; where names are introduced, unknown ones are new.
SymbolicShape ExpressionParser::parse_shape(bool introduces) {
  SymbolicShape shape;
  lexer_.expect_punctuation('[', "before the lengths");
  if (lexer_.take_punctuation(']')) return shape;
  do {
    const Token token = lexer_.peek();
    if (lexer_.take_punctuation('*')) {
      const Token name = lexer_.expect(TokenKind::word, "a name");
      const std::string text(name.text);
      if (shape.has_star()) lexer_.fail(token, "a shape has one * at most");
      if (!introduces && !rule_.symbols.find_star(text)) {
        lexer_.fail(name, "*" + text + " does not occur on the left side");
      }
      shape.star = rule_.symbols.star(text);
    } else {
      (shape.has_star() ? shape.after : shape.before).push_back(parse_length(introduces));
    }
  } while (lexer_.take_punctuation(','));
  lexer_.expect_punctuation(']', "after the lengths");
  return shape;
}

Polynomial ExpressionParser::parse_length(bool introduces) {
  Polynomial sum = parse_length_product(introduces);
  while (lexer_.take_punctuation('+')) sum = sum + parse_length_product(introduces);
  return sum;
}

Polynomial ExpressionParser::parse_length_product(bool introduces) {
  Polynomial product = parse_length_factor(introduces);
  while (lexer_.take_punctuation('*')) product = product * parse_length_factor(introduces);
  return product;
}

Polynomial ExpressionParser::parse_length_factor(bool introduces) {
  if (lexer_.at(TokenKind::integer)) return {lexer_.take().integer};
  const Token name = lexer_.expect(TokenKind::word, "a length");
  const std::string text(name.text);
  if (!introduces && !rule_.symbols.find_length(text)) {
    lexer_.fail(name, "the length " + text + " does not occur on the left side");
  }
  return Polynomial::symbol(rule_.symbols.length(text));
}

NumberExpr ExpressionParser::parse_number() {
  const Token start = lexer_.peek();
  NumberExpr sum = parse_number_product();
  while (lexer_.take_punctuation('+')) {
    sum = {.kind = NumberExpr::Kind::sum, .operands = {sum, parse_number_product()}};
  }
  if (left_ && !sum.operands.empty()) {
    lexer_.fail(start, "on the left side a number is a name or a literal");
  }
  return sum;
}

NumberExpr ExpressionParser::parse_number_product() {
  NumberExpr product = parse_number_factor();
  while (lexer_.at_punctuation('*') || lexer_.at_punctuation('/')) {
    const auto kind =
        lexer_.take().text == "*" ? NumberExpr::Kind::product : NumberExpr::Kind::quotient;
    product = {.kind = kind, .operands = {product, parse_number_factor()}};
  }
  return product;
}

NumberExpr ExpressionParser::parse_number_factor() {
  if (lexer_.at(TokenKind::integer)) {
    return {.constant = static_cast<double>(lexer_.take().integer)};
  }
  if (lexer_.at(TokenKind::real)) return {.constant = lexer_.take().real};
  const Token name = lexer_.expect(TokenKind::word, "a number");
  const std::optional<int> known = index_of(rule_.numbers, std::string(name.text));
  if (!known) lexer_.fail(name, "there is no number " + std::string(name.text));
  return {.kind = NumberExpr::Kind::variable, .variable = *known};
}

std::vector<int64_t> ExpressionParser::parse_dims() {
  std::vector<int64_t> dims;
  lexer_.expect_punctuation('[', "before the dimensions");
  do {
    dims.push_back(lexer_.expect(TokenKind::integer, "a dimension").integer);
  } while (lexer_.take_punctuation(','));
  lexer_.expect_punctuation(']', "after the dimensions");
  return dims;
}

}  // namespace magis
