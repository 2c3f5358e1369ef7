// Axis signatures as plain tuples: what the numeric tests split operators by.
#include "magis/graph/axes.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "magis/graph/op_table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

nb::list rows(const std::vector<std::vector<DimAxis>>& signature_rows) {
  nb::list list;
  for (const std::vector<DimAxis>& row : signature_rows) {
    nb::list dims;
    for (DimAxis dim : row) dims.append(nb::make_tuple(dim.axis, dim.step));
    list.append(dims);
  }
  return list;
}

nb::object signature_object(const Graph& graph, OpId op) {
  const std::optional<AxisSignature> signature = axis_signature(graph, op);
  if (!signature) return nb::none();
  nb::list axes;
  for (const Axis& axis : signature->axes)
    axes.append(nb::make_tuple(axis.length, axis.splittable));
  nb::list dependence;
  for (const std::vector<Dependence>& row : signature->dependence) {
    nb::list words;
    for (Dependence word : row) words.append(std::string(to_text(word)));
    dependence.append(words);
  }
  nb::list lengths;
  for (const LengthArgument& length : signature->lengths) {
    lengths.append(
        nb::make_tuple(length.position, length.keyword, length.item, length.axis, length.step));
  }
  nb::dict object;
  object["axes"] = axes;
  object["operands"] = rows(signature->operands);
  object["results"] = rows(signature->results);
  object["dependence"] = dependence;
  object["added_once"] = std::vector<bool>(signature->added_once);
  object["contiguous"] = std::vector<bool>(signature->contiguous);
  object["lengths"] = lengths;
  object["text"] = to_text(*signature);
  return object;
}

nb::list axis_signatures(const PyGraph& graph) {
  nb::list list;
  const Graph& g = *graph.graph;
  for (std::size_t i = 0; i < g.op_count(); ++i) {
    const OpId op{static_cast<int32_t>(i)};
    list.append(nb::make_tuple(g.op(op).info->name, signature_object(g, op)));
  }
  return list;
}

}  // namespace

void bind_axes(nb::module_& m) {
  m.def("axis_signatures", &axis_signatures, "graph"_a);
  m.def("split_operators", [] {
    std::vector<std::string> names;
    for (const OpInfo* info : known_operators()) {
      if (info->axis_rule != nullptr || !info->axes.empty()) names.push_back(info->name);
    }
    return names;
  });
}

}  // namespace magis
