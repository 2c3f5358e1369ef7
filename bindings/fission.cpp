// Regions by hand: the candidates of a graph, and the graph with some of them split.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "bindings.h"
#include "magis/base/error.h"
#include "magis/search/fission_ground.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

struct PyRegions {
  SharedGraph source;
  std::shared_ptr<const FissionGround> ground;
  std::vector<FissionCandidate> candidates;
};

PyRegions regions_of(const PyGraph& g, const PyDevice& device, std::optional<Bytes> least_saving,
                     int limit) {
  auto ground = std::make_shared<FissionGround>(*g.graph, profile_of(device));
  CandidateOptions options;
  if (least_saving) options.least_saving = *least_saving;
  options.limit = limit;
  std::vector<FissionCandidate> candidates = ground->candidates(options);
  return {g.graph, std::move(ground), std::move(candidates)};
}

std::string name_of(const PyRegions& regions, OpId op) {
  const Graph& graph = regions.ground->axes().graph();
  return graph.name(op);
}

// (name of the operator's first result, axis, step) for each operator.
using PyLabels = std::vector<std::tuple<std::string, int, int64_t>>;

PyLabels labels_of(const PyRegions& regions, std::size_t index) {
  const FissionRegion& region = regions.candidates.at(index).region;
  PyLabels labels;
  for (std::size_t i = 0; i < region.operators.size(); ++i) {
    labels.emplace_back(name_of(regions, region.operators[i]), region.labels[i].axis,
                        region.labels[i].step);
  }
  return labels;
}

// A region by hand; it becomes the last one. Returns why it is not valid, if it is not.
std::optional<std::string> add(PyRegions& regions, const PyLabels& labels, int64_t length) {
  const AxisGraph& axes = regions.ground->axes();
  const Graph& graph = axes.graph();
  std::unordered_map<std::string, Label> by_name;
  for (const auto& [name, axis, step] : labels) by_name[name] = {axis, step};
  FissionRegion region;
  region.length = region.part = length;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const auto found = by_name.find(name_of(regions, OpId(i)));
    if (found == by_name.end()) continue;
    region.operators.emplace_back(i);
    region.labels.push_back(found->second);
  }
  if (region.operators.size() != labels.size()) throw UserError("there is no such operator");
  if (auto why = why_invalid(axes, region)) return why;
  regions.candidates.push_back({std::move(region), 0});
  return std::nullopt;
}

// (index, part, [children]) as nested tuples.
FissionRegion region_from(const PyRegions& regions, nb::handle choice) {
  const auto [index, part, children] = nb::cast<std::tuple<std::size_t, int64_t, nb::list>>(choice);
  if (index >= regions.candidates.size()) throw UserError("there is no such region");
  FissionRegion region = regions.candidates[index].region;
  if (part < 1) throw UserError("a part has at least one unit");
  region.part = std::min(part, region.length);
  for (nb::handle child : children) {
    FissionRegion inner = region_from(regions, child);
    const int64_t inner_part = inner.part;
    add_child(region, std::move(inner), inner_part);
  }
  return region;
}

PyGraph split(const PyRegions& regions, nb::list choices) {
  std::vector<FissionRegion> chosen;
  for (nb::handle choice : choices) {
    chosen.push_back(region_from(regions, choice));
    if (const auto why = why_invalid(regions.ground->axes(), chosen.back())) throw UserError(*why);
  }
  std::variant<Graph, std::string> made = regions.ground->split(chosen);
  if (const auto* why = std::get_if<std::string>(&made)) throw UserError(*why);
  return {std::make_shared<const Graph>(std::get<Graph>(std::move(made)))};
}

// The graph in which all that can runs in `parts` parts of the batch.
PyGraph split_batch(const PyRegions& regions, int64_t parts) {
  const FissionRegion region = regions.ground->batch_region(parts);
  std::variant<Graph, std::string> made = regions.ground->split({&region, 1});
  if (const auto* why = std::get_if<std::string>(&made)) throw UserError(*why);
  return {std::make_shared<const Graph>(std::get<Graph>(std::move(made)))};
}

// "7 operators from %a (...) to %b (...), along an axis of 2048".
std::string describe_region(const PyRegions& regions, std::size_t i) {
  const Graph& graph = regions.ground->axes().graph();
  const FissionRegion& region = regions.candidates.at(i).region;
  return std::to_string(region.operators.size()) + " operators from " +
         describe(graph, region.operators.front()) + " to " +
         describe(graph, region.operators.back()) + ", along an axis of " +
         std::to_string(region.length);
}

// Operators that fission knows no axes of, by name.
std::vector<std::string> whole_operators(const PyRegions& regions) {
  const AxisGraph& axes = regions.ground->axes();
  std::set<std::string> names;
  for (std::size_t o = 0; o < axes.graph().op_count(); ++o) {
    if (axes.signature(OpId(o)) == nullptr) names.insert(axes.graph().op(OpId(o)).info->name);
  }
  return {names.begin(), names.end()};
}

}  // namespace

void bind_fission(nb::module_& m) {
  nb::class_<PyRegions>(m, "Regions")
      .def("__len__", [](const PyRegions& r) { return r.candidates.size(); })
      .def("length",
           [](const PyRegions& r, std::size_t i) { return r.candidates.at(i).region.length; })
      .def("saving", [](const PyRegions& r, std::size_t i) { return r.candidates.at(i).saving; })
      .def("operators",
           [](const PyRegions& r, std::size_t i) {
             std::vector<std::string> names;
             for (const OpId op : r.candidates.at(i).region.operators) {
               names.push_back(name_of(r, op));
             }
             return names;
           })
      .def("labels", &labels_of)
      .def("add", &add, "labels"_a, nb::kw_only(), "length"_a)
      .def("opened",
           [](const PyRegions& r) {
             return PyGraph{std::make_shared<const Graph>(r.ground->axes().graph())};
           })
      .def("describe", &describe_region)
      .def("obstacles", [](const PyRegions& r) { return r.ground->batch_obstacles(); })
      .def("whole_operators", &whole_operators)
      .def("split", &split, "choices"_a)
      .def("split_batch", &split_batch, "parts"_a);
  m.def("fission_regions", &regions_of, "graph"_a, nb::kw_only(), "device"_a,
        "least_saving"_a = nb::none(), "limit"_a = CandidateOptions{}.limit);
}

}  // namespace magis
