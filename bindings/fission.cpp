// Regions by hand: the candidates of a graph, and the graph with some of them split.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

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

PyRegions regions_of(const PyGraph& g, const std::string& device) {
  auto ground = std::make_shared<FissionGround>(*g.graph, device_profile(device));
  std::vector<FissionCandidate> candidates = ground->candidates();
  return {g.graph, std::move(ground), std::move(candidates)};
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
             const Graph& graph = r.ground->axes().graph();
             for (const OpId op : r.candidates.at(i).region.operators) {
               names.push_back(graph.value(graph.op(op).results.front()).name);
             }
             return names;
           })
      .def("split", &split, "choices"_a);
  m.def("fission_regions", &regions_of, "graph"_a, nb::kw_only(), "device"_a);
}

}  // namespace magis
