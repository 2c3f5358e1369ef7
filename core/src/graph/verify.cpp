// The invariants of Graph, checked from the definitions and not with the builder's code.
#include <algorithm>
#include <set>

#include "graph/loops.h"
#include "magis/base/error.h"
#include "magis/graph/builder.h"
#include "magis/graph/text.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

void verify_view(const Graph& graph, const Value& view) {
  MAGIS_CHECK(view.base.valid() && view.base.index < static_cast<int>(graph.values().size()),
              "%" << view.name);
  const Value& base = graph.value(view.base);
  MAGIS_CHECK(base.tensor == view.tensor, "%" << view.name << " and its base %" << base.name);
  const Call& call = graph.view(view);
  MAGIS_CHECK(call.info->purity == Purity::view && call.args.at(0) == Arg{view.base},
              "%" << view.name);
  const auto derived = derive_view(call, base.type);
  MAGIS_CHECK(std::holds_alternative<Type>(derived),
              "%" << view.name << ": " << std::get<std::string>(derived));
  MAGIS_CHECK(same_layout(std::get<Type>(derived), view.type),
              "%" << view.name << " : " << to_text(view.type) << ", not "
                  << to_text(std::get<Type>(derived)));
}

void verify_values(const Graph& graph) {
  std::set<std::string_view> names;
  for (const Value& value : graph.values()) {
    MAGIS_CHECK(names.insert(value.name).second, "two values are named %" << value.name);
    MAGIS_CHECK(value.tensor.valid() == value.type.defined, "%" << value.name);
    MAGIS_CHECK(value.type.storage >= minimal_storage(value.type),
                "%" << value.name << " : " << to_text(value.type));
    if (value.kind == ValueKind::view) verify_view(graph, value);
  }
  Bytes persistent = 0;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& tensor = graph.tensor(TensorId(i));
    const Value& value = graph.value(tensor.value);
    MAGIS_CHECK(value.kind != ValueKind::view && value.tensor == TensorId(i), "%" << value.name);
    MAGIS_CHECK(tensor.bytes == value.type.storage, "%" << value.name << ": " << tensor.bytes);
    MAGIS_CHECK(tensor.producer == value.producer, "%" << value.name);
    MAGIS_CHECK(tensor.is_input == !tensor.producer.valid(), "%" << value.name);
    if (tensor.is_input) persistent += tensor.bytes;
  }
  MAGIS_CHECK(persistent == graph.persistent_bytes(), graph.persistent_bytes());
}

void verify_operator(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  MAGIS_CHECK(op.info != nullptr && op.info->purity != Purity::view && !op.results.empty(),
              "operator " << id.index);
  std::vector<TensorId> reads;
  for_each_value(op, [&](ValueId read) {
    const Value& value = graph.value(read);
    const bool is_scalar = value.kind == ValueKind::input && !value.type.defined;
    MAGIS_CHECK(value.tensor.valid() || is_scalar, op.info->name << " reads %" << value.name);
    if (is_scalar) return;
    MAGIS_CHECK(graph.tensor(value.tensor).producer < id,
                op.info->name << " reads %" << value.name << " before it is made");
    if (std::find(reads.begin(), reads.end(), value.tensor) == reads.end()) {
      reads.push_back(value.tensor);
    }
  });
  MAGIS_CHECK(std::ranges::equal(reads, graph.reads(id)), op.info->name);
  std::vector<TensorId> makes;
  for (ValueId result : op.results) {
    const Value& value = graph.value(result);
    MAGIS_CHECK(value.kind == ValueKind::result && value.producer == id, "%" << value.name);
    if (value.type.defined) makes.push_back(value.tensor);
  }
  MAGIS_CHECK(std::ranges::equal(makes, graph.makes(id)), op.info->name);
  for (OpId before : graph.predecessors(id)) {
    MAGIS_CHECK(before.valid() && before < id, op.info->name << " after " << before.index);
    MAGIS_CHECK(std::ranges::count(graph.successors(before), id) == 1, op.info->name);
  }
  for (TensorId tensor : reads) {
    const OpId producer = graph.tensor(tensor).producer;
    MAGIS_CHECK(!producer.valid() || std::ranges::count(graph.predecessors(id), producer) == 1,
                op.info->name << " does not wait for operator " << producer.index);
  }
}

bool is_loop_result(const Graph& graph, TensorId tensor) {
  return graph.bounded_loop(graph.tensor(tensor).producer).valid();
}

void verify_writes(const Graph& graph, const Operator& op) {
  for (int position : op.info->mutated) {
    if (static_cast<std::size_t>(position) >= op.args.size()) continue;
    for_each_value(op.args[static_cast<std::size_t>(position)], [&](ValueId id) {
      const Value& value = graph.value(id);
      MAGIS_CHECK(value.tensor.valid() &&
                      (graph.tensor(value.tensor).is_input || is_loop_result(graph, value.tensor)),
                  op.info->name << " writes to %" << value.name << ", which is not an input");
    });
  }
}

void verify_in_place_choices(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  for (const Graph::InPlaceChoice& choice : graph.in_place_choices(id)) {
    MAGIS_CHECK(graph.edge_op(choice.edge) == id, op.info->name);
    const TensorId tensor = graph.edge_tensor(choice.edge);
    const Arg& argument = op.args.at(static_cast<std::size_t>(choice.argument));
    const Value& operand = graph.value(std::get<ValueId>(argument.value));
    const Value& result = graph.value(op.results.at(0));
    MAGIS_CHECK(operand.tensor == tensor && !graph.tensor(tensor).is_input, "%" << operand.name);
    MAGIS_CHECK(operand.type == result.type, to_text(operand.type)
                                                 << " over " << to_text(result.type));
  }
}

void verify_edges(const Graph& graph) {
  std::size_t uses = 0;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const TensorId tensor(i);
    EdgeId previous;
    for (EdgeId edge : graph.uses(tensor)) {
      MAGIS_CHECK(graph.edge_tensor(edge) == tensor && previous < edge, "edge " << edge.index);
      previous = edge;
      ++uses;
    }
  }
  MAGIS_CHECK(uses == graph.edge_count(), uses << " uses, " << graph.edge_count() << " edges");
}

}  // namespace

void verify(const Graph& graph) {
  verify_values(graph);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    verify_operator(graph, OpId(i));
    verify_writes(graph, graph.op(OpId(i)));
    verify_in_place_choices(graph, OpId(i));
  }
  verify_edges(graph);
  const std::optional<std::string> violation = loop_violation(graph);
  MAGIS_CHECK(!violation, *violation);
  IdMap<TensorId, char> is_output(graph.tensors().size(), false);
  for (const Output& output : graph.outputs()) {
    const Value& value = graph.value(output.value);
    MAGIS_CHECK(value.type.defined, "output %" << value.name << " is not defined");
    is_output[value.tensor] = true;
  }
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    MAGIS_CHECK(graph.tensor(TensorId(i)).is_output == static_cast<bool>(is_output[TensorId(i)]),
                "tensor " << i);
  }
}

}  // namespace magis
