// The only way to make a Graph: add things in program order, then build().
#pragma once

#include "magis/graph/graph.h"

namespace magis {

class GraphBuilder {
 public:
  void set_device(std::string device);
  void add_meta(std::string key, std::string text);
  SiteId add_site(int number, std::string module, std::string source);
  ValueId add_input(InputKind kind, std::string name, std::string path, Type type);
  ValueId add_view(std::string name, Call call, Type type);
  // Returns the results' values, one per type.
  std::vector<ValueId> add_operator(Operator op, std::vector<std::string> names,
                                    std::vector<Type> types);
  void add_output(OutputKind kind, std::string path, ValueId value);
  // Invalid if there is none of that name.
  ValueId find(std::string_view name) const;
  const Value& value(ValueId id) const;

  // Computes edges, precedence and in-place choices. Drops views that nobody reads. Requires that names are distinct.
  Graph build() &&;

 private:
  Graph graph_;
  // name -> value
  std::vector<std::pair<std::string, ValueId>> names_;
};

// Calls visit(ValueId) for every value that `call` names, in argument order, nested lists included.
template <class Visit>
void for_each_value(const Arg& arg, Visit&& visit) {
  if (const auto* id = std::get_if<ValueId>(&arg.value)) {
    visit(*id);
  } else if (const auto* list = std::get_if<ArgList>(&arg.value)) {
    for (const Arg& item : *list) for_each_value(item, visit);
  }
}
template <class Visit>
void for_each_value(const Call& call, Visit&& visit) {
  for (const Arg& arg : call.args) for_each_value(arg, visit);
  for (const auto& [name, arg] : call.kwargs) for_each_value(arg, visit);
}

}  // namespace magis
