#include "transform/rebuilder.h"

#include <algorithm>
#include <utility>

namespace magis {

void copy_header(const Graph& graph, GraphBuilder& builder,
                 std::span<const std::pair<std::string, std::string>> meta) {
  builder.set_device(std::string(graph.device()));
  for (const auto& [key, text] : graph.meta()) {
    if (std::ranges::find(meta, key, &std::pair<std::string, std::string>::first) == meta.end()) {
      builder.add_meta(key, text);
    }
  }
  for (const auto& [key, text] : meta) builder.add_meta(key, text);
  for (const Site& site : graph.sites()) builder.add_site(site.number, site.module, site.source);
}

Rebuilder::Rebuilder(const Graph& graph) : graph_(graph), new_id_(graph.values().size()) {
  copy_header(graph, builder);
}

void Rebuilder::add_inputs() {
  for (const Input& input : graph_.inputs()) {
    const Value& value = graph_.value(input.value);
    new_id_[input.value] = builder.add_input(input.kind, value.name, input.path, value.type);
  }
}

void Rebuilder::add_operator(const Operator& op) {
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

void Rebuilder::add_output(const Output& output) {
  builder.add_output(output.kind, output.path, at(output.value));
}

ValueId Rebuilder::at(ValueId old) {
  if (new_id_[old].valid()) return new_id_[old];
  const Value& view = graph_.value(old);
  Call call = graph_.view(view);
  rename(call);
  return new_id_[old] = builder.add_view(view.name, std::move(call), view.type);
}

std::string Rebuilder::free_name(const std::string& name) const {
  const auto is_taken = [&](const std::string& candidate) {
    return builder.find(candidate).valid() ||
           std::ranges::any_of(graph_.values(),
                               [&](const Value& value) { return value.name == candidate; });
  };
  std::string candidate = name;
  for (int number = 2; is_taken(candidate); ++number) {
    candidate = name + "_" + std::to_string(number);
  }
  return candidate;
}

void Rebuilder::rename(Call& call) {
  for (Arg& arg : call.args) rename(arg);
  for (auto& [name, arg] : call.kwargs) rename(arg);
}

void Rebuilder::rename(Arg& arg) {
  if (auto* id = std::get_if<ValueId>(&arg.value)) {
    *id = at(*id);
  } else if (auto* list = std::get_if<ArgList>(&arg.value)) {
    for (Arg& item : *list) rename(item);
  }
}

}  // namespace magis
