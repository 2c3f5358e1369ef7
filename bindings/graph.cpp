#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "bindings.h"
#include "magis/graph/text.h"
#include "magis/transform/accumulate.h"
#include "magis/transform/rewriting.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

struct PyInput {
  std::string kind, name, path, dtype;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  Bytes bytes = 0;
};
struct PyOutput {
  std::string kind, path, name;
};

std::vector<PyInput> inputs(const PyGraph& g) {
  std::vector<PyInput> list;
  for (const Input& in : g.graph->inputs()) {
    const Value& v = g.graph->value(in.value);
    PyInput item{std::string(to_text(in.kind)), v.name, in.path, "", {}, {}, 0, 0};
    if (in.kind != InputKind::scalar) {
      item.dtype = to_text(v.type.dtype);
      item.shape = v.type.shape;
      item.strides = v.type.strides;
      item.offset = v.type.offset;
      item.bytes = v.type.storage;
    }
    list.push_back(std::move(item));
  }
  return list;
}

std::vector<PyOutput> outputs(const PyGraph& g) {
  std::vector<PyOutput> list;
  for (const Output& out : g.graph->outputs())
    list.push_back({std::string(to_text(out.kind)), out.path, g.graph->value(out.value).name});
  return list;
}

nb::tuple to_tuple(const std::vector<int64_t>& numbers) {
  nb::list list;
  for (int64_t n : numbers) list.append(n);
  return nb::tuple(list);
}

nb::dict operator_counts(const PyGraph& g) {
  std::vector<std::string> names;
  for (const Operator& op : g.graph->operators()) names.push_back(op.info->name);
  std::sort(names.begin(), names.end());
  nb::dict counts;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t end = i;
    while (end < names.size() && names[end] == names[i]) ++end;
    counts[names[i].c_str()] = end - i;
    i = end;
  }
  return counts;
}

std::vector<std::string> opaque_operators(const PyGraph& g) {
  std::set<std::string> names;
  for (const Operator& op : g.graph->operators())
    if (op.info->purity == Purity::opaque) names.insert(op.info->name);
  return {names.begin(), names.end()};
}

std::vector<PyTensorInfo> tensors(const PyGraph& g) {
  std::vector<PyTensorInfo> list;
  for (std::size_t t = 0; t < g.graph->tensors().size(); ++t)
    list.push_back(tensor_info(*g.graph, TensorId(t)));
  return list;
}

}  // namespace

std::string python_copy_name(const Graph& graph, CopyRef ref) {
  std::string name = graph.value(graph.tensor(ref.tensor).value).name;
  return ref.copy == 0 ? name : name + "." + std::to_string(ref.copy);
}

PyTensorInfo tensor_info(const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  const Value& value = graph.value(tensor.value);
  PyTensorInfo info;
  info.name = value.name;
  info.type = to_text(value.type);
  info.bytes = tensor.bytes;
  info.is_input = tensor.is_input;
  info.is_output = tensor.is_output;
  if (tensor.producer.valid()) {
    const Operator& op = graph.op(tensor.producer);
    info.op = op.info->name;
    info.backward = op.backward;
    if (op.site.valid()) {
      info.module = graph.sites()[op.site].module;
      info.source = graph.sites()[op.site].source;
    }
  }
  return info;
}

void bind_graph(nb::module_& m) {
  nb::class_<PyInput>(m, "Input")
      .def_ro("kind", &PyInput::kind)
      .def_ro("name", &PyInput::name)
      .def_ro("path", &PyInput::path)
      .def_ro("dtype", &PyInput::dtype)
      .def_prop_ro("shape", [](const PyInput& i) { return to_tuple(i.shape); })
      .def_prop_ro("strides", [](const PyInput& i) { return to_tuple(i.strides); })
      .def_ro("offset", &PyInput::offset)
      .def_ro("bytes", &PyInput::bytes);
  nb::class_<PyOutput>(m, "Output")
      .def_ro("kind", &PyOutput::kind)
      .def_ro("path", &PyOutput::path)
      .def_ro("name", &PyOutput::name);
  nb::class_<PyTensorInfo>(m, "TensorInfo")
      .def_ro("name", &PyTensorInfo::name)
      .def_ro("bytes", &PyTensorInfo::bytes)
      .def_ro("type", &PyTensorInfo::type)
      .def_ro("operator", &PyTensorInfo::op)
      .def_ro("module", &PyTensorInfo::module)
      .def_ro("source", &PyTensorInfo::source)
      .def_ro("backward", &PyTensorInfo::backward)
      .def_ro("is_input", &PyTensorInfo::is_input)
      .def_ro("is_output", &PyTensorInfo::is_output);
  nb::class_<PyGraph>(m, "Graph")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& file_name) {
            return PyGraph{std::make_shared<const Graph>(parse_graph(text, file_name))};
          },
          "text"_a, "file_name"_a = "<text>")
      .def("text", [](const PyGraph& g) { return to_text(*g.graph); })
      .def("verify", [](const PyGraph& g) { verify(*g.graph); })
      .def("fingerprint",
           [](const PyGraph& g) {
             char hex[17];
             std::snprintf(hex, sizeof hex, "%016llx",
                           static_cast<unsigned long long>(fingerprint(*g.graph)));
             return std::string(hex);
           })
      .def(
          "accumulate_gradients",
          [](const PyGraph& g, const std::vector<std::string>& paths) {
            return PyGraph{std::make_shared<const Graph>(accumulate_gradients(*g.graph, paths))};
          },
          "paths"_a)
      .def_prop_ro("device", [](const PyGraph& g) { return std::string(g.graph->device()); })
      .def_prop_ro("meta",
                   [](const PyGraph& g) {
                     nb::dict meta;
                     for (const auto& [key, text] : g.graph->meta()) meta[key.c_str()] = text;
                     return meta;
                   })
      .def_prop_ro("inputs", &inputs)
      .def_prop_ro("outputs", &outputs)
      .def_prop_ro("tensors", &tensors)
      .def_prop_ro("rewrites", [](const PyGraph& g) { return rewrites_of(*g.graph); })
      .def_prop_ro("rounds_otherwise", [](const PyGraph& g) { return rounds_otherwise(*g.graph); })
      .def_prop_ro("altered",
                   [](const PyGraph& g) {
                     return !g.graph->loops().empty() || !rewrites_of(*g.graph).empty();
                   })
      .def_prop_ro("loop_count", [](const PyGraph& g) { return g.graph->loops().size(); })
      .def_prop_ro("operator_count", [](const PyGraph& g) { return g.graph->op_count(); })
      .def_prop_ro("persistent_bytes", [](const PyGraph& g) { return g.graph->persistent_bytes(); })
      .def("operator_counts", &operator_counts)
      .def("opaque_operators", &opaque_operators);
}

}  // namespace magis
