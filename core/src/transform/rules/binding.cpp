#include "transform/rules/binding.h"

#include <utility>

#include "magis/base/error.h"

namespace magis {

Binding::Binding(const Rule& rule)
    : nodes(rule.left_count),
      numbers(rule.numbers.size()),
      attributes(rule.attributes.size()),
      sequences(rule.sequences.size()),
      symbols(rule.symbols) {}

double evaluate(const NumberExpr& expr, const Binding& binding) {
  const auto operand = [&](std::size_t i) { return evaluate(expr.operands[i], binding); };
  switch (expr.kind) {
    case NumberExpr::Kind::constant:
      return expr.constant;
    case NumberExpr::Kind::variable:
      return *binding.numbers[static_cast<std::size_t>(expr.variable)];
    case NumberExpr::Kind::sum:
      return operand(0) + operand(1);
    case NumberExpr::Kind::product:
      return operand(0) * operand(1);
    case NumberExpr::Kind::quotient:
      return operand(0) / operand(1);
  }
  return 0;
}

KeywordArgs keywords_of(const PatternNode& node, const Binding& binding) {
  KeywordArgs keywords = node.word->keywords;
  for (const auto& [name, expr] :
       {std::pair("beta", &node.beta), std::pair("alpha", &node.alpha)}) {
    const double number = evaluate(*expr, binding);
    if (number != 1) keywords.emplace_back(name, Arg{number});
  }
  return keywords;
}

Arg as_arg(ArgList list) {
  Arg arg;
  arg.value = std::move(list);
  return arg;
}

Arg plain_argument(ArgKind kind, const PatternArg& arg, const Binding& binding) {
  switch (kind) {
    case ArgKind::number:
      return {evaluate(arg.number, binding)};
    case ArgKind::length:
      return {*arg.length.evaluate(binding.symbols.lengths)};
    case ArgKind::shape: {
      const std::optional<Shape> shape = binding.symbols.evaluate(arg.shape);
      ArgList list;
      for (int64_t length : *shape) list.push_back({length});
      return as_arg(std::move(list));
    }
    case ArgKind::flag:
      return {arg.flag};
    case ArgKind::attribute:
      return arg.attribute < 0 ? arg.literal
                               : *binding.attributes[static_cast<std::size_t>(arg.attribute)];
    default:
      MAGIS_CHECK(false, "an argument that names tensors or dimensions");
  }
  return {};
}

}  // namespace magis
