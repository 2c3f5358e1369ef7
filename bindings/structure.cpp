// A graph as planners see it: operators and tensors by number, with what they cost.
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings.h"
#include "magis/schedule/decisions.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

struct PyOperator {
  std::string name, kind;
  bool backward = false, recomputable = false;
  Seconds seconds = 0;
  Bytes scratch = 0;
  std::vector<int> reads, makes;               // tensors
  std::vector<int> predecessors, overwriters;  // operators
  std::vector<int> in_place;                   // positions in `reads`, best first
  std::string loop;                            // innermost around it
  std::string bounds;                          // the loop that it begins or ends
};
struct PyTensor {
  std::string name;
  Bytes bytes = 0;
  Seconds copy_seconds = 0;
  int producer = -1;
  bool is_input = false, is_output = false, swappable = false;
};
struct PyStructure {
  std::vector<PyOperator> operators;
  std::vector<PyTensor> tensors;
  Bytes persistent = 0;
  bool copies_overlap = true;
};

template <class Ids>
std::vector<int> numbers(const Ids& ids) {
  std::vector<int> list;
  for (const auto id : ids) list.push_back(static_cast<int>(id.index));
  return list;
}

PyOperator operator_of(const Graph& graph, const CostTable& costs, OpId id) {
  const Operator& op = graph.op(id);
  PyOperator out{.name = graph.name(id),
                 .kind = op.info->name,
                 .backward = op.backward,
                 .recomputable = recomputable(graph, id),
                 .seconds = costs.seconds[id],
                 .scratch = costs.scratch[id],
                 .reads = numbers(graph.reads(id)),
                 .makes = numbers(graph.makes(id)),
                 .predecessors = numbers(graph.predecessors(id)),
                 .overwriters = numbers(graph.overwriters(id)),
                 .in_place = {},
                 .loop = {},
                 .bounds = {}};
  for (const Graph::InPlaceChoice& choice : graph.in_place_choices(id)) {
    out.in_place.push_back(static_cast<int>(choice.edge.index - graph.first_edge(id).index));
  }
  if (const LoopId loop = graph.loop_of(id); loop.valid()) out.loop = graph.loop(loop).name;
  if (const LoopId loop = graph.bounded_loop(id); loop.valid()) out.bounds = graph.loop(loop).name;
  return out;
}

// How often the body runs in which `op` stands.
double iterations_around(const Graph& graph, OpId op) {
  double count = 1;
  if (!op.valid()) return count;
  for (LoopId loop = graph.loop_of(op); loop.valid(); loop = graph.loop(loop).parent) {
    count *= static_cast<double>(graph.loop(loop).iterations());
  }
  return count;
}

PyStructure structure(const PyGraph& g, const PyDevice& device) {
  const Graph& graph = *g.graph;
  const CostTable costs = make_cost_table(graph, profile_of(device));
  PyStructure out{.operators = {},
                  .tensors = {},
                  .persistent = costs.persistent,
                  .copies_overlap = costs.copies_overlap};
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    out.operators.push_back(operator_of(graph, costs, OpId(o)));
  }
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId id(t);
    const Tensor& tensor = graph.tensor(id);
    out.tensors.push_back(
        {.name = graph.value(tensor.value).name,
         .bytes = costs.bytes[id],
         .copy_seconds = costs.copy_seconds[id] * iterations_around(graph, tensor.producer),
         .producer = static_cast<int>(tensor.producer.index),
         .is_input = tensor.is_input,
         .is_output = tensor.is_output,
         .swappable = swappable(graph, id)});
  }
  return out;
}

}  // namespace

void bind_structure(nb::module_& m) {
  nb::class_<PyOperator>(m, "OperatorFacts")
      .def_ro("name", &PyOperator::name)
      .def_ro("kind", &PyOperator::kind)
      .def_ro("backward", &PyOperator::backward)
      .def_ro("recomputable", &PyOperator::recomputable)
      .def_ro("seconds", &PyOperator::seconds)
      .def_ro("scratch", &PyOperator::scratch)
      .def_ro("reads", &PyOperator::reads)
      .def_ro("makes", &PyOperator::makes)
      .def_ro("predecessors", &PyOperator::predecessors)
      .def_ro("overwriters", &PyOperator::overwriters)
      .def_ro("in_place", &PyOperator::in_place)
      .def_ro("loop", &PyOperator::loop)
      .def_ro("bounds", &PyOperator::bounds);
  nb::class_<PyTensor>(m, "TensorFacts")
      .def_ro("name", &PyTensor::name)
      .def_ro("bytes", &PyTensor::bytes)
      .def_ro("copy_seconds", &PyTensor::copy_seconds)
      .def_ro("producer", &PyTensor::producer)
      .def_ro("is_input", &PyTensor::is_input)
      .def_ro("is_output", &PyTensor::is_output)
      .def_ro("swappable", &PyTensor::swappable);
  nb::class_<PyStructure>(m, "Structure")
      .def_ro("operators", &PyStructure::operators)
      .def_ro("tensors", &PyStructure::tensors)
      .def_ro("persistent_bytes", &PyStructure::persistent)
      .def_ro("copies_overlap", &PyStructure::copies_overlap);
  m.def("structure", &structure, "graph"_a, nb::kw_only(), "device"_a);
}

}  // namespace magis
