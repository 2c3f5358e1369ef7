#include "magis/graph/axes.h"

#include <array>

#include "graph/axes_builder.h"

namespace magis {

std::string_view to_text(Dependence dependence) {
  static constexpr std::array<std::string_view, 8> kNames = {"sliced",  "sum", "maximum", "minimum",
                                                             "product", "any", "all",     "once"};
  return kNames[static_cast<std::size_t>(dependence)];
}

std::optional<AxisSignature> axis_signature(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  if (op.info->axis_rule != nullptr) return op.info->axis_rule(graph, op);
  if (!op.info->axes.empty()) return notation_signature(graph, op, op.info->axes);
  return std::nullopt;
}

namespace {

// a .. z, then a1 .. z1, ...; in upper case if the axis is whole.
std::string axis_text(const AxisSignature& signature, int axis) {
  const bool whole = !signature.axes[static_cast<std::size_t>(axis)].splittable;
  std::string text(1, static_cast<char>((whole ? 'A' : 'a') + axis % 26));
  if (axis >= 26) text += std::to_string(axis / 26);
  return text;
}

std::string row_text(const AxisSignature& signature, const std::vector<DimAxis>& dims) {
  std::string text;
  for (DimAxis dim : dims) {
    if (dim.axis < 0) {
      text += '.';
      continue;
    }
    if (dim.step != 1) text += std::to_string(dim.step);
    text += axis_text(signature, dim.axis);
  }
  return text;
}

std::string dependence_mark(Dependence dependence) {
  switch (dependence) {
    case Dependence::sliced:
      return "";
    case Dependence::sum:
      return "+";
    case Dependence::maximum:
      return " max ";
    case Dependence::minimum:
      return " min ";
    case Dependence::product:
      return "*";
    case Dependence::any:
      return " any ";
    case Dependence::all:
      return " all ";
    case Dependence::once:
      return "=";
  }
  return "";
}

std::string length_text(const AxisSignature& signature, const LengthArgument& length) {
  std::string text = length.position >= 0 ? std::to_string(length.position) : length.keyword;
  if (length.item >= 0) text += "." + std::to_string(length.item);
  text += '=';
  if (length.step != 1) text += std::to_string(length.step);
  return text + axis_text(signature, length.axis);
}

}  // namespace

std::string to_text(const AxisSignature& signature) {
  std::string text;
  for (std::size_t i = 0; i < signature.operands.size(); ++i) {
    if (i > 0) text += ", ";
    if (signature.added_once[i]) text += '!';
    if (signature.contiguous[i]) text += '#';
    text += row_text(signature, signature.operands[i]);
  }
  text += signature.operands.empty() ? "->" : " ->";
  for (std::size_t i = 0; i < signature.results.size(); ++i) {
    text += (i > 0 ? ", " : " ") + row_text(signature, signature.results[i]);
    for (std::size_t axis = 0; axis < signature.dependence[i].size(); ++axis) {
      const Dependence dependence = signature.dependence[i][axis];
      if (dependence == Dependence::sliced || !signature.axes[axis].splittable) continue;
      text += dependence_mark(dependence) + axis_text(signature, static_cast<int>(axis));
    }
  }
  for (std::size_t i = 0; i < signature.lengths.size(); ++i) {
    text += (i == 0 ? "; " : ", ") + length_text(signature, signature.lengths[i]);
  }
  return text;
}

}  // namespace magis
