// Which operand an operator may overwrite with its first result, as far as types and layouts say.
#include <optional>

#include "magis/graph/builder.h"

namespace magis {
namespace {

// The value is all there is of its tensor: overwriting it in full leaves nothing of the tensor
// behind.
bool covers_its_tensor(const Graph& graph, const Value& value) {
  return value.type.offset == 0 && is_dense(value.type) &&
         element_count(value.type.shape) * element_size(value.type.dtype) ==
             graph.tensor(value.tensor).bytes;
}

bool same_elements(const Type& a, const Type& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides &&
         a.offset == b.offset && a.storage == b.storage;
}

// PyTorch's elementwise kernels take operands that coincide with the result, not ones that overlap
// it in another layout; other kernels take neither.
bool others_keep_away(const Graph& graph, const Operator& op, TensorId tensor, ValueId value) {
  int reads = 0;
  bool only_as_value = true;
  for_each_value(op, [&](ValueId id) {
    if (graph.value(id).tensor != tensor) return;
    ++reads;
    only_as_value = only_as_value && id == value;
  });
  return only_as_value && (reads == 1 || !op.info->in_place.exclusive);
}

std::optional<TensorId> overwritable(const Graph& graph, const Operator& op, int position) {
  if (static_cast<std::size_t>(position) >= op.args.size()) return std::nullopt;
  const Arg& argument = op.args[static_cast<std::size_t>(position)];
  const auto* id = std::get_if<ValueId>(&argument.value);
  if (id == nullptr) return std::nullopt;
  const Value& operand = graph.value(*id);
  const Value& result = graph.value(op.results[0]);
  if (!operand.tensor.valid() || graph.tensor(operand.tensor).is_input) return std::nullopt;
  if (!result.type.defined || !same_elements(operand.type, result.type)) return std::nullopt;
  if (op.info->in_place.wide_on_cpu && graph.device() == "cpu" && is_half(result.type.dtype)) {
    return std::nullopt;
  }
  if (!covers_its_tensor(graph, operand)) return std::nullopt;
  if (!others_keep_away(graph, op, operand.tensor, *id)) return std::nullopt;
  return operand.tensor;
}

// An op_ form writes to its first argument, so another operand has to change places with it: only
// between two tensors, and only without keyword arguments (alpha). A tensor without dimensions
// takes part in another dtype's arithmetic as a number, which rounds differently on the two sides
// (f32[] times bf16[n]).
bool can_stand_first(const Graph& graph, const Operator& op, int position) {
  if (position == 0 || !op.info->in_place.out_argument.empty()) return true;  // nothing swaps
  const auto* first = std::get_if<ValueId>(&op.args[0].value);
  if (first == nullptr || !op.kwargs.empty()) return false;
  const Type& other = graph.value(*first).type;
  return other.defined &&
         (!other.shape.empty() || other.dtype == graph.value(op.results[0]).type.dtype);
}

EdgeId edge_of(const Graph& graph, OpId op, TensorId tensor) {
  EdgeId edge = graph.first_edge(op);
  while (graph.edge_tensor(edge) != tensor) ++edge.index;
  return edge;
}

}  // namespace

void GraphBuilder::find_in_place_choices() {
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    const OpId id(i);
    const Operator& op = graph_.op(id);
    std::vector<TensorId> chosen;
    for (int position : op.info->in_place.operands) {
      const std::optional<TensorId> tensor = overwritable(graph_, op, position);
      if (!tensor || !can_stand_first(graph_, op, position)) continue;
      if (!chosen.empty() && chosen.front() == *tensor) continue;  // mul(%x, %x)
      chosen.push_back(*tensor);
      graph_.in_place_.push_back({edge_of(graph_, id, *tensor), position});
    }
    graph_.in_place_.end_row();
  }
}

}  // namespace magis
