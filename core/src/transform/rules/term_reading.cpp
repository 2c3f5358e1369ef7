#include "transform/rules/term_reading.h"

#include <algorithm>

namespace magis {

ValueId first_operand(const Term& term) { return std::get<ValueId>(term.args.front().value); }

std::optional<double> number_value(const Arg& arg) {
  if (const auto* real = std::get_if<double>(&arg.value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(&arg.value)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<double> factor_of(const Term& term) {
  const std::string& name = term.info->name;
  const bool divides = name == "aten.div.Scalar" || name == "aten.div.Tensor";
  if (!divides && name != "aten.mul.Scalar" && name != "aten.mul.Tensor") return std::nullopt;
  if (term.args.size() != 2 || !term.kwargs.empty()) return std::nullopt;
  const double number = number_value(term.args[1]).value_or(0);
  if (number == 0) return std::nullopt;
  return divides ? 1 / number : number;
}

std::optional<Slice> slice_of(const TermGraph& terms, const Term& term) {
  const auto integer = [&](std::size_t at, int64_t otherwise) {
    return at < term.args.size() ? integer_value(term.args[at]).value_or(otherwise) : otherwise;
  };
  const ValueId base = first_operand(term);
  const Shape& shape = terms.type(base).shape;
  int64_t dim = integer(1, 0);
  if (dim < 0) dim += static_cast<int64_t>(shape.size());
  const int64_t length = shape.at(static_cast<std::size_t>(dim));
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length);
  };
  if (integer(4, 1) != 1 || !term.kwargs.empty()) return std::nullopt;
  return Slice{base, dim, place(integer(2, 0)), place(integer(3, length))};
}

int64_t concatenated_dim(const TermGraph& terms, const Term& cat) {
  const int64_t dim = cat.args.size() > 1 ? integer_value(cat.args[1]).value_or(0) : 0;
  const auto rank = static_cast<int64_t>(terms.type(cat.results.front()).shape.size());
  return dim < 0 ? dim + rank : dim;
}

}  // namespace magis
