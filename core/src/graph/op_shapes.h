// Reading an operator's operands by position, for the formulas of the operator table.
#pragma once

#include "magis/graph/builder.h"
#include "magis/graph/graph.h"

namespace magis {

// The type of the tensor at `position`; null if that argument is not a tensor.
inline const Type* operand_type(const Graph& graph, const Operator& op, std::size_t position) {
  if (position >= op.args.size()) return nullptr;
  const auto* id = std::get_if<ValueId>(&op.args[position].value);
  return id == nullptr || !graph.value(*id).type.defined ? nullptr : &graph.value(*id).type;
}

// Of a kernel whose scratch depends on what its operands hold: none is certain. What is measured
// (Operator::scratch) is the most that a run may take.
inline Bytes uncertain_scratch(const Graph&, const Operator&) { return 0; }

inline double elements(const Type& type) { return static_cast<double>(element_count(type.shape)); }

// Length of the dimension `from_end` places before the last (0: the last).
inline double length_from_end(const Type& type, std::size_t from_end) {
  if (from_end >= type.shape.size()) return 1;
  return static_cast<double>(type.shape[type.shape.size() - 1 - from_end]);
}

inline bool flag(const Call& call, std::size_t position, std::string_view keyword) {
  const Arg* argument = find_argument(call, position, keyword);
  const bool* value = argument == nullptr ? nullptr : std::get_if<bool>(&argument->value);
  return value != nullptr && *value;
}

inline bool has_result(const Graph& graph, const Operator& op, std::size_t result) {
  return result < op.results.size() && graph.value(op.results[result]).type.defined;
}

}  // namespace magis
