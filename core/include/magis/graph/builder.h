// The only way to make a Graph: add things in program order, then build().
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

class GraphBuilder {
 public:
  void set_device(std::string device);
  void add_meta(std::string key, std::string text);
  SiteId add_site(int number, std::string module, std::string source);
  // A scalar's type is not defined: Type{.defined = false}.
  ValueId add_input(InputKind kind, std::string name, std::string path, Type type);
  // The first argument of `call` is the base.
  ValueId add_view(std::string name, Call call, Type type);
  // Returns the results' values, one per type.
  std::vector<ValueId> add_operator(Operator op, std::vector<std::string> names,
                                    std::vector<Type> types);
  void add_output(OutputKind kind, std::string path, ValueId value);
  // Invalid if there is none of that name.
  ValueId find(std::string_view name) const;
  // The innermost loop that an operator added now would belong to; invalid: none.
  LoopId open_loop() const { return open_loop_; }
  // A loop around the next operator; invalid if there is none of that name.
  LoopId find_open_loop(std::string_view name) const;
  const Loop& loop(LoopId id) const { return graph_.loops_[id]; }
  // The result of a magis.begin.
  bool is_loop_result(const Value& value) const;
  PartLength part_length(int64_t coefficient, std::vector<LoopId> loops) const;
  std::size_t op_count() const { return graph_.operators_.size(); }
  const Value& value(ValueId id) const { return graph_.values_[id]; }
  const IdMap<ValueId, Value>& values() const { return graph_.values_; }

  // Requires that no loop is open. Computes edges, precedence and in-place choices. Drops views
  // that nobody reads. Requires that names are distinct. Values are numbered anew, in the order of
  // the canonical text: ids handed out before are the builder's, not the graph's.
  Graph build() &&;

 private:
  ValueId add_value(Value value);
  void number_values();
  void link_tensors();
  void link_edges();
  void track_loops(const Operator& op, OpId id);
  void link_precedence();
  void find_in_place_choices();

  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };

  Graph graph_;
  LoopId open_loop_;
  std::unordered_map<std::string, ValueId, NameHash, std::equal_to<>> names_;
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

// The argument at `position`, or given by keyword; null if neither is there.
const Arg* find_argument(const Call& call, std::size_t position, std::string_view keyword);

}  // namespace magis
