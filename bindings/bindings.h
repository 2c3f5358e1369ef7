// What crosses between C++ and Python, one function per group of classes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <variant>

#include "magis/graph/graph.h"
#include "magis/schedule/program.h"
#include "magis/simulate/profile.h"

namespace magis {

// Graphs are immutable and shared by plans, reports and results.
using SharedGraph = std::shared_ptr<const Graph>;

struct PyGraph {
  SharedGraph graph;
};
struct PyPlan {
  SharedGraph graph;
  Program program;
};
struct PyTensorInfo {
  std::string name, type, op, module, source;
  Bytes bytes = 0;
  bool backward = false, is_input = false, is_output = false;
};

// A device profile: the name of a built-in one, or one that Python made.
using PyDevice = std::variant<std::string, DeviceProfile>;
// The profile itself; throws UserError if there is none of that name.
const DeviceProfile& profile_of(const PyDevice& device);

// "mm_3" for the original, "mm_3.1" for its first copy.
std::string python_copy_name(const Graph& graph, CopyRef ref);
PyTensorInfo tensor_info(const Graph& graph, TensorId tensor);

void bind_profile(nanobind::module_& m);
void bind_graph(nanobind::module_& m);
void bind_axes(nanobind::module_& m);
// A plan's program as Python sees it: one Statement each.
nanobind::list python_statements(const PyPlan& plan);

void bind_statements(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_optimize(nanobind::module_& m);
void bind_fission(nanobind::module_& m);
void bind_rewriting(nanobind::module_& m);
void bind_structure(nanobind::module_& m);

}  // namespace magis
