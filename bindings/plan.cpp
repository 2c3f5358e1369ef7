#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <unordered_map>

#include "bindings.h"
#include "magis/base/error.h"
#include "magis/codegen/python.h"
#include "magis/graph/text.h"
#include "magis/schedule/decisions.h"
#include "magis/schedule/host_pool.h"
#include "magis/schedule/undo.h"
#include "magis/simulate/reserved_memory.h"
#include "magis/simulate/simulate.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

struct PyLiveTensor {
  std::string name;
  Bytes bytes;
  PyTensorInfo tensor;
};
struct PyTimelinePoint {
  std::string op, result;
  Seconds start, end;
  Bytes live;
};
struct PyCopyPoint {
  std::string kind, tensor;
  Seconds start, end;
};
struct PySimulation {
  Bytes persistent = 0, transient_peak = 0;
  Seconds seconds = 0, exposed = 0, copy_seconds = 0;
  Bytes host_peak = 0, bytes_to_host = 0, bytes_to_device = 0;
  std::string peak_operator, peak_module, peak_source;
  std::vector<PyLiveTensor> hotspots;
  std::vector<PyTimelinePoint> timeline;
  std::vector<PyCopyPoint> copies;
};

// "%a" names an operator by its first result.
std::string run_name(const Graph& graph, const Statement& run) {
  std::string name = graph.name(run.op);
  return run.copy == 0 ? name : name + "." + std::to_string(run.copy);
}

// Of all copies both ways, were they made one after another.
Seconds copy_seconds(const PyPlan& plan, const CostTable& costs) {
  const Graph& graph = *plan.graph;
  Seconds total = 0;
  for (const Statement& s : plan.program.statements) {
    if (s.kind != Statement::Kind::store && s.kind != Statement::Kind::load) continue;
    for (const CopyRef& copy : s.copies) {
      Seconds seconds = costs.copy_seconds[copy.tensor];
      LoopId around = graph.loop_of(graph.tensor(copy.tensor).producer);
      for (; around.valid(); around = graph.loop(around).parent)
        seconds *= static_cast<double>(graph.loop(around).iterations());
      total += seconds;
    }
  }
  return total;
}

PySimulation simulate_plan(const PyPlan& plan, const PyDevice& device) {
  const Graph& graph = *plan.graph;
  const CostTable costs = make_cost_table(graph, profile_of(device));
  const Simulation sim = simulate(graph, plan.program, costs);
  PySimulation out;
  out.persistent = sim.persistent;
  out.transient_peak = sim.transient_peak;
  out.seconds = sim.seconds;
  out.exposed = sim.exposed;
  out.copy_seconds = copy_seconds(plan, costs);
  out.host_peak = sim.host_peak;
  out.bytes_to_host = sim.bytes_to_host;
  out.bytes_to_device = sim.bytes_to_device;
  if (sim.peak_statement >= 0) {
    const Statement& at = plan.program.statements[static_cast<std::size_t>(sim.peak_statement)];
    const bool loads = at.kind == Statement::Kind::load;  // then: who made what is loaded
    const Operator& op = graph.op(loads ? graph.tensor(at.copies.front().tensor).producer : at.op);
    out.peak_operator = op.info->name;
    if (op.site.valid()) {
      out.peak_module = graph.sites()[op.site].module;
      out.peak_source = graph.sites()[op.site].source;
    }
  }
  for (const CopyRef& ref : sim.hotspots)
    out.hotspots.push_back(
        {python_copy_name(graph, ref), costs.bytes[ref.tensor], tensor_info(graph, ref.tensor)});
  for (const TimelinePoint& point : sim.timeline) {
    const Statement& run = plan.program.statements[static_cast<std::size_t>(point.statement)];
    out.timeline.push_back(
        {graph.op(run.op).info->name, run_name(graph, run), point.start, point.end, point.live});
  }
  for (const CopyPoint& point : sim.copies) {
    const Statement& copy = plan.program.statements[static_cast<std::size_t>(point.statement)];
    out.copies.push_back({copy.kind == Statement::Kind::store ? "store" : "load",
                          python_copy_name(graph, copy.copies.front()), point.start, point.end});
  }
  return out;
}

std::vector<PyTensorInfo> recomputed(const PyPlan& plan) {
  std::vector<PyTensorInfo> list;
  for (const Statement& s : plan.program.statements)
    if (s.kind == Statement::Kind::run && s.copy > 0)
      list.push_back(tensor_info(*plan.graph, plan.graph->makes(s.op).front()));
  return list;
}

// Names of operators that are not to run again, names of tensors that are to stay on the device.
using PyUndone = std::tuple<std::vector<std::string>, std::vector<std::string>>;

class UndoneByName {
 public:
  explicit UndoneByName(const Graph& graph) : graph_(graph) {
    for (std::size_t o = 0; o < graph.op_count(); ++o) operators_[graph.name(OpId(o))] = OpId(o);
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
      tensors_[graph.value(graph.tensor(TensorId(t)).value).name] = TensorId(t);
    }
  }

  Undone operator()(const PyUndone& names) const {
    Undone undone{IdMap<OpId, uint8_t>(graph_.op_count(), 0),
                  IdMap<TensorId, uint8_t>(graph_.tensors().size(), 0)};
    for (const std::string& name : std::get<0>(names)) undone.runs[find(operators_, name)] = 1;
    for (const std::string& name : std::get<1>(names)) undone.swaps[find(tensors_, name)] = 1;
    return undone;
  }

 private:
  template <class I>
  static I find(const std::unordered_map<std::string, I>& ids, const std::string& name) {
    const auto found = ids.find(name);
    if (found == ids.end()) throw UserError("there is no %" + name + " in this plan");
    return found->second;
  }

  const Graph& graph_;
  std::unordered_map<std::string, OpId> operators_;
  std::unordered_map<std::string, TensorId> tensors_;
};

// Lifetimes end anew, whatever the text says of them.
PyPlan plan_of(const PyGraph& g, const std::string& text, const std::string& file_name) {
  const Graph& graph = *g.graph;
  const Undone nothing{IdMap<OpId, uint8_t>(graph.op_count(), 0),
                       IdMap<TensorId, uint8_t>(graph.tensors().size(), 0)};
  PyPlan plan{g.graph, undo(graph, parse_program(graph, text, file_name), nothing)};
  verify(graph, plan.program);
  return plan;
}

// (peak bytes, seconds, exposed seconds)
std::tuple<Bytes, Seconds, Seconds> footprint_of(const PyPlan& plan, const PyDevice& device) {
  const CostTable costs = make_cost_table(*plan.graph, profile_of(device));
  const Footprint found = footprint(*plan.graph, plan.program, costs);
  return {costs.persistent + found.transient_peak, found.seconds, found.exposed};
}

PyPlan without(const PyPlan& plan, const std::vector<std::string>& runs,
               const std::vector<std::string>& swaps) {
  const Undone undone = UndoneByName(*plan.graph)({runs, swaps});
  return {plan.graph, undo(*plan.graph, plan.program, undone)};
}

// (peak, seconds, exposed seconds) without each of `groups`, the others as they are.
std::vector<std::tuple<Bytes, Seconds, Seconds>> footprints_without(
    const PyPlan& plan, const std::vector<PyUndone>& groups, const PyDevice& device) {
  const Graph& graph = *plan.graph;
  const CostTable costs = make_cost_table(graph, profile_of(device));
  const UndoneByName by_name(graph);
  std::vector<std::tuple<Bytes, Seconds, Seconds>> list;
  for (const PyUndone& group : groups) {
    const Footprint found = footprint(graph, undo(graph, plan.program, by_name(group)), costs);
    list.emplace_back(costs.persistent + found.transient_peak, found.seconds, found.exposed);
  }
  return list;
}

// The distinct calls of a step, as often as it runs each.
std::vector<CallCount> calls(const PyPlan& plan, const PyDevice& device) {
  IdMap<OpId, int> copies(plan.graph->op_count(), 0);
  for (const Statement& s : plan.program.statements) {
    if (s.kind == Statement::Kind::run) ++copies[s.op];
  }
  return count_calls(*plan.graph, copies, profile_of(device));
}

// (call, seconds) of each statement that runs an operator, in program order, all iterations of
// loops together; what only bounds a loop is left out.
std::vector<std::pair<std::string, Seconds>> run_costs(const PyPlan& plan, const PyDevice& device) {
  const CostTable costs = make_cost_table(*plan.graph, profile_of(device));
  std::vector<std::pair<std::string, Seconds>> list;
  for (const Statement& s : plan.program.statements) {
    if (s.kind != Statement::Kind::run || plan.graph->bounded_loop(s.op).valid()) continue;
    list.emplace_back(call_key(*plan.graph, s.op), costs.seconds[s.op]);
  }
  return list;
}

ReservedMemory reserved(const PyPlan& plan, const PyDevice& device,
                        const AllocatorSettings& allocator, Bytes library_workspace) {
  const CostTable costs = make_cost_table(*plan.graph, profile_of(device));
  return reserved_memory(*plan.graph, plan.program, costs,
                         {.allocator = allocator, .library_workspace = library_workspace});
}

int operators_run(const PyPlan& plan) {
  int count = 0;
  for (const Statement& s : plan.program.statements) count += s.kind == Statement::Kind::run;
  return count;
}

void bind_simulation(nb::module_& m) {
  nb::class_<PyLiveTensor>(m, "LiveTensor")
      .def_ro("name", &PyLiveTensor::name)
      .def_ro("bytes", &PyLiveTensor::bytes)
      .def_ro("tensor", &PyLiveTensor::tensor);
  nb::class_<PyTimelinePoint>(m, "TimelinePoint")
      .def_ro("operator", &PyTimelinePoint::op)
      .def_ro("result", &PyTimelinePoint::result)
      .def_ro("start", &PyTimelinePoint::start)
      .def_ro("end", &PyTimelinePoint::end)
      .def_ro("live_bytes", &PyTimelinePoint::live);
  nb::class_<PyCopyPoint>(m, "CopyPoint")
      .def_ro("kind", &PyCopyPoint::kind)
      .def_ro("tensor", &PyCopyPoint::tensor)
      .def_ro("start", &PyCopyPoint::start)
      .def_ro("end", &PyCopyPoint::end);
  nb::class_<PySimulation>(m, "Simulation")
      .def_ro("persistent_bytes", &PySimulation::persistent)
      .def_ro("transient_peak_bytes", &PySimulation::transient_peak)
      .def_prop_ro("peak_bytes",
                   [](const PySimulation& s) { return s.persistent + s.transient_peak; })
      .def_ro("seconds", &PySimulation::seconds)
      .def_ro("exposed_seconds", &PySimulation::exposed)
      .def_ro("copy_seconds", &PySimulation::copy_seconds)
      .def_ro("host_peak_bytes", &PySimulation::host_peak)
      .def_ro("bytes_to_host", &PySimulation::bytes_to_host)
      .def_ro("bytes_to_device", &PySimulation::bytes_to_device)
      .def_ro("peak_operator", &PySimulation::peak_operator)
      .def_ro("peak_module", &PySimulation::peak_module)
      .def_ro("peak_source", &PySimulation::peak_source)
      .def_ro("hotspots", &PySimulation::hotspots)
      .def_ro("timeline", &PySimulation::timeline)
      .def_ro("copies", &PySimulation::copies);
}

void bind_reserved_memory(nb::module_& m) {
  nb::class_<AllocatorSettings>(m, "AllocatorSettings")
      .def(nb::init<>())
      .def_rw("device_memory", &AllocatorSettings::device_memory)
      .def_rw("allowed_memory", &AllocatorSettings::allowed_memory)
      .def_rw("garbage_collection_threshold", &AllocatorSettings::garbage_collection_threshold)
      .def_rw("max_split_size", &AllocatorSettings::max_split_size)
      .def_rw("max_non_split_rounding", &AllocatorSettings::max_non_split_rounding)
      .def_rw("large_segment", &AllocatorSettings::large_segment)
      .def_rw("roundup_power2_divisions", &AllocatorSettings::roundup_power2_divisions)
      .def_rw("expandable_segments", &AllocatorSettings::expandable_segments);
  nb::class_<ReservedMemory>(m, "ReservedMemory")
      .def_ro("reserved_bytes", &ReservedMemory::reserved)
      .def_ro("allocated_bytes", &ReservedMemory::allocated)
      .def_prop_ro("fragmentation_bytes", &ReservedMemory::fragmentation)
      .def_ro("allocated_peak_bytes", &ReservedMemory::allocated_peak)
      .def_ro("cache_flushes", &ReservedMemory::cache_flushes)
      .def_ro("fits", &ReservedMemory::fits);
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_simulation(m);
  bind_reserved_memory(m);
  nb::class_<PyPlan>(m, "Plan")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& file_name) {
            PlanText parsed = parse_plan(text, file_name);
            return PyPlan{std::make_shared<const Graph>(std::move(parsed.graph)),
                          std::move(parsed.program)};
          },
          "text"_a, "file_name"_a = "<text>")
      .def_static("of", &plan_of, "graph"_a, "program"_a, "file_name"_a = "<program>")
      .def_static(
          "program_order",
          [](const PyGraph& g) {
            return PyPlan{g.graph, lower(*g.graph, program_order(*g.graph)).value()};
          },
          "graph"_a)
      .def_prop_ro("graph", [](const PyPlan& p) { return PyGraph{p.graph}; })
      .def("text", [](const PyPlan& p) { return to_text(*p.graph, p.program); })
      .def(
          "source",
          [](const PyPlan& p, const std::string& heading) {
            return emit_python(*p.graph, p.program, heading);
          },
          "heading"_a = "")
      .def(
          "source_lines",
          [](const PyPlan& p, const std::string& heading) {
            return python_lines(*p.graph, p.program, heading);
          },
          "heading"_a = "")
      .def_prop_ro("statements", &python_statements)
      .def("simulate", &simulate_plan, "device"_a)
      .def("footprint", &footprint_of, "device"_a)
      .def("reserved", &reserved, "device"_a, "allocator"_a, "library_workspace"_a = 0)
      .def("verify",
           [](const PyPlan& p) {
             verify(*p.graph);
             verify(*p.graph, p.program);
           })
      .def_prop_ro("host_bytes",
                   [](const PyPlan& p) { return plan_host_pool(*p.graph, p.program).bytes; })
      .def("operators_run", &operators_run)
      .def("calls", &calls, "device"_a)
      .def("run_costs", &run_costs, "device"_a)
      .def("without", &without, nb::kw_only(), "runs"_a = std::vector<std::string>(),
           "swaps"_a = std::vector<std::string>())
      .def("footprints_without", &footprints_without, "groups"_a, nb::kw_only(), "device"_a)
      .def("recomputed", &recomputed);
}

}  // namespace magis
