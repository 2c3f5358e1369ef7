#include "simulate/short_part.h"

#include <utility>
#include <variant>
#include <vector>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "transform/part_values.h"

namespace magis {

ShortPart::ShortPart(const Graph& graph, LoopId loop) : graph_(graph), loop_(loop) {
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    if (is_in_body(OpId(o))) enter_results(OpId(o));
  }
}

bool ShortPart::is_in_body(OpId op) const {
  for (LoopId id = graph_.loop_of(op); id.valid(); id = graph_.loop(id).parent) {
    if (id == loop_) return true;
  }
  return false;
}

int64_t ShortPart::length(const PartLength& length) const {
  int64_t units = length.coefficient;
  for (const LoopId id : length.loops) {
    units *= id == loop_ ? graph_.loop(id).last_part() : graph_.loop(id).part;
  }
  return units;
}

std::optional<Type> ShortPart::type(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.kind == ValueKind::result) {
    const auto found = results_.find(id);
    return found == results_.end() ? value.type : found->second;
  }
  if (value.kind == ValueKind::input) return value.type;
  const std::optional<Type> base = type(value.base);
  if (!base) return std::nullopt;
  Call call = graph_.view(value);
  const auto shorten = [&](auto& self, Arg& arg) -> void {
    if (const auto* part = std::get_if<PartLength>(&arg.value)) {
      PartLength shortened = *part;
      shortened.value = length(*part);
      arg.value = std::move(shortened);
    } else if (auto* items = std::get_if<ArgList>(&arg.value)) {
      for (Arg& item : *items) self(self, item);
    }
  };
  for (Arg& arg : call.args) shorten(shorten, arg);
  for (auto& [keyword, arg] : call.kwargs) shorten(shorten, arg);
  auto derived = derive_view(call, *base);
  if (auto* found = std::get_if<Type>(&derived)) return std::move(*found);
  return std::nullopt;
}

// Axes take the lengths that the operands have now; false if an operand is not known.
bool ShortPart::follow_operands(const Operator& op, AxisSignature& signature) const {
  std::size_t row = 0;
  bool known = true;
  for_each_value(op, [&](ValueId id) {
    const std::vector<DimAxis>& dims = signature.operands.at(row++);
    const std::optional<Type> now = type(id);
    if (!now) known = false;
    if (!now || !now->defined) return;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].axis < 0 || now->shape[d] == graph_.value(id).type.shape[d]) continue;
      if (now->shape[d] % dims[d].step != 0) known = false;
      signature.axes[static_cast<std::size_t>(dims[d].axis)].length = now->shape[d] / dims[d].step;
    }
  });
  return known;
}

// The same for lengths that stand in arguments.
bool ShortPart::follow_lengths(const Operator& op, AxisSignature& signature) const {
  for (const LengthArgument& argument : signature.lengths) {
    const Arg* arg =
        argument.position >= 0 ? &op.args[static_cast<std::size_t>(argument.position)] : nullptr;
    for (const auto& [keyword, value] : op.kwargs) {
      if (arg == nullptr && keyword == argument.keyword) arg = &value;
    }
    if (arg == nullptr) return false;
    if (argument.item >= 0) {
      const auto* items = std::get_if<ArgList>(&arg->value);
      if (items == nullptr) return false;
      arg = &items->at(static_cast<std::size_t>(argument.item));
    }
    const auto* part = std::get_if<PartLength>(&arg->value);
    if (part == nullptr) continue;
    if (length(*part) % argument.step != 0) return false;
    signature.axes[static_cast<std::size_t>(argument.axis)].length = length(*part) / argument.step;
  }
  return true;
}

void ShortPart::enter_results(OpId id) {
  const Operator& op = graph_.op(id);
  std::optional<AxisSignature> signature = axis_signature(graph_, id);
  const bool known = signature && follow_operands(op, *signature) && follow_lengths(op, *signature);
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    const Type& full = graph_.value(op.results[r]).type;
    if (!full.defined) {
      results_[op.results[r]] = full;
    } else if (!known) {
      results_[op.results[r]] = std::nullopt;
    } else {
      Shape shape = full.shape;
      const std::vector<DimAxis>& dims = signature->results[r];
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (dims[d].axis < 0) continue;
        shape[d] = signature->axes[static_cast<std::size_t>(dims[d].axis)].length * dims[d].step;
      }
      results_[op.results[r]] =
          shape == full.shape ? full : PartValues::in_stride_order(full, std::move(shape));
    }
  }
}

}  // namespace magis
