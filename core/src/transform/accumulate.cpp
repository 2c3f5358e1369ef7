#include "magis/transform/accumulate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "magis/base/error.h"
#include "magis/graph/builder.h"

namespace magis {
namespace {

// Copies a graph operator by operator; values keep their names.
class Rebuilder {
 public:
  explicit Rebuilder(const Graph& graph) : graph_(graph), new_id_(graph.values().size()) {
    builder.set_device(std::string(graph.device()));
    for (const auto& [key, text] : graph.meta()) builder.add_meta(key, text);
    for (const Site& site : graph.sites()) builder.add_site(site.number, site.module, site.source);
  }

  void add_input(const Input& input) {
    const Value& value = graph_.value(input.value);
    new_id_[input.value] = builder.add_input(input.kind, value.name, input.path, value.type);
  }

  void add_operator(const Operator& op) {
    Operator copy = op;
    rename(copy);
    std::vector<std::string> names;
    std::vector<Type> types;
    for (ValueId result : op.results) {
      names.push_back(graph_.value(result).name);
      types.push_back(graph_.value(result).type);
    }
    const std::vector<ValueId> results =
        builder.add_operator(std::move(copy), std::move(names), std::move(types));
    for (std::size_t i = 0; i < results.size(); ++i) new_id_[op.results[i]] = results[i];
  }

  // The value in the new graph; views are added when they are first asked for.
  ValueId at(ValueId old) {
    if (new_id_[old].valid()) return new_id_[old];
    const Value& view = graph_.value(old);
    Call call = graph_.view(view);
    rename(call);
    return new_id_[old] = builder.add_view(view.name, std::move(call), view.type);
  }

  GraphBuilder builder;

 private:
  void rename(Call& call) {
    for (Arg& arg : call.args) rename(arg);
    for (auto& [name, arg] : call.kwargs) rename(arg);
  }
  void rename(Arg& arg) {
    if (auto* id = std::get_if<ValueId>(&arg.value)) {
      *id = at(*id);
    } else if (auto* list = std::get_if<ArgList>(&arg.value)) {
      for (Arg& item : *list) rename(item);
    }
  }

  const Graph& graph_;
  IdMap<ValueId, ValueId> new_id_;
};

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

// `name`, or `name` and a number if that is taken already.
std::string free_name(const Graph& graph, const GraphBuilder& builder, const std::string& name) {
  const auto is_taken = [&](const std::string& candidate) {
    return builder.find(candidate).valid() ||
           std::ranges::any_of(graph.values(),
                               [&](const Value& value) { return value.name == candidate; });
  };
  std::string candidate = name;
  for (int number = 2; is_taken(candidate); ++number)
    candidate = name + "_" + std::to_string(number);
  return candidate;
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
  rebuilder.builder.add_operator(std::move(op),
                                 {free_name(graph, rebuilder.builder, into + "_added")},
                                 {Type{.defined = false}});
}

}  // namespace

Graph accumulate_gradients(const Graph& graph, std::span<const std::string> paths) {
  check_paths(graph, paths);
  Rebuilder rebuilder(graph);
  for (const Input& input : graph.inputs()) rebuilder.add_input(input);
  std::multimap<OpId, Accumulation> after;  // by the gradient's producer
  for (const Output& output : graph.outputs()) {
    if (!is_asked_for(output, paths)) continue;
    const Value& gradient = graph.value(output.value);
    const ValueId into = rebuilder.builder.add_input(
        InputKind::grad, free_name(graph, rebuilder.builder, name_of_gradient(graph, output)),
        output.path, type_of_gradient(gradient.type));
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
