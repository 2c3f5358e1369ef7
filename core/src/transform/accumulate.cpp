#include "magis/transform/accumulate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "magis/base/error.h"
#include "magis/graph/builder.h"
#include "transform/rebuilder.h"

namespace magis {
namespace {

struct Accumulation {
  const Output* output;
  ValueId into;  // the new input
};

bool is_asked_for(const Output& output, std::span<const std::string> paths) {
  return output.kind == OutputKind::grad &&
         std::find(paths.begin(), paths.end(), output.path) != paths.end();
}

void check_paths(const Graph& graph, std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    const bool found = std::ranges::any_of(graph.outputs(), [&](const Output& output) {
      return output.kind == OutputKind::grad && output.path == path;
    });
    if (!found) throw UserError("the graph has no gradient output for \"" + path + "\"");
  }
}

// The parameter (or batch tensor) whose gradient it is lends its name.
std::string name_of_gradient(const Graph& graph, const Output& output) {
  for (const Input& input : graph.inputs()) {
    const bool has_gradient = input.kind == InputKind::param || input.kind == InputKind::batch;
    if (has_gradient && input.path == output.path) return graph.value(input.value).name + "_grad";
  }
  return graph.value(output.value).name + "_grad";
}

Type type_of_gradient(const Type& gradient) {
  Type type = gradient;
  type.offset = 0;
  type.storage = minimal_storage(type);
  return type;
}

void add_accumulation(Rebuilder& rebuilder, const Graph& graph, const Accumulation& accumulation) {
  const Value& gradient = graph.value(accumulation.output->value);
  const OpId producer = graph.tensor(gradient.tensor).producer;
  Operator op;
  op.info = &op_info("aten.add_.Tensor");
  op.args = {{accumulation.into}, {rebuilder.at(accumulation.output->value)}};
  op.site = producer.valid() ? graph.op(producer).site : SiteId();
  op.backward = true;
  const std::string into = rebuilder.builder.value(accumulation.into).name;
  rebuilder.builder.add_operator(std::move(op), {rebuilder.free_name(into + "_added")},
                                 {Type{.defined = false}});
}

}  // namespace

Graph accumulate_gradients(const Graph& graph, std::span<const std::string> paths) {
  check_paths(graph, paths);
  Rebuilder rebuilder(graph);
  rebuilder.add_inputs();
  std::multimap<OpId, Accumulation> after;  // by the gradient's producer
  for (const Output& output : graph.outputs()) {
    if (!is_asked_for(output, paths)) continue;
    const Value& gradient = graph.value(output.value);
    const ValueId into = rebuilder.builder.add_input(
        InputKind::grad, rebuilder.free_name(name_of_gradient(graph, output)), output.path,
        type_of_gradient(gradient.type));
    after.emplace(graph.tensor(gradient.tensor).producer, Accumulation{&output, into});
  }
  const auto add_accumulations = [&](OpId producer) {
    const auto [begin, end] = after.equal_range(producer);
    for (auto it = begin; it != end; ++it) add_accumulation(rebuilder, graph, it->second);
  };
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    rebuilder.add_operator(graph.op(OpId(i)));
    add_accumulations(OpId(i));
  }
  add_accumulations(OpId());  // gradients that are inputs as they are
  for (const Output& output : graph.outputs()) {
    if (!is_asked_for(output, paths)) {
      rebuilder.builder.add_output(output.kind, output.path, rebuilder.at(output.value));
    }
  }
  return std::move(rebuilder.builder).build();
}

}  // namespace magis
