// Copies a graph operator by operator, for transformations that change a few of them.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "magis/graph/builder.h"

namespace magis {

// Device, meta and sites; `meta` takes the place of lines with the same keys.
void copy_header(const Graph& graph, GraphBuilder& builder,
                 std::span<const std::pair<std::string, std::string>> meta = {});

// Values keep their names. Header and sites are copied at once; inputs, operators and outputs when
// asked.
class Rebuilder {
 public:
  explicit Rebuilder(const Graph& graph);

  void add_inputs();
  void add_operator(const Operator& op);
  void add_output(const Output& output);
  // The value in the new graph; views are added when they are first asked for.
  ValueId at(ValueId old);
  // From now on, what read `old` reads `now`.
  void replace(ValueId old, ValueId now) { new_id_[old] = now; }
  // `name`, or `name` and a number if that is taken in either graph.
  std::string free_name(const std::string& name) const;

  GraphBuilder builder;

 private:
  void rename(Call& call);
  void rename(Arg& arg);

  const Graph& graph_;
  IdMap<ValueId, ValueId> new_id_;
};

}  // namespace magis
