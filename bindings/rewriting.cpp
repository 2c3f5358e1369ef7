// Rewrite rules by hand: which there are, where they match, and what they make.
#include "magis/transform/rewriting.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.h"
#include "magis/search/rule_effects.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

// (name, what it says, same bits, not in 16 bits)
using PyRule = std::tuple<std::string, std::string, bool, bool>;

std::vector<PyRule> as_tuples(const std::vector<RuleInfo>& infos) {
  std::vector<PyRule> rules;
  for (const RuleInfo& info : infos) {
    rules.emplace_back(info.name, info.description, info.exact, info.wide);
  }
  return rules;
}

PyGraph shared(Graph graph) { return {std::make_shared<const Graph>(std::move(graph))}; }

std::optional<std::pair<PyGraph, PyGraph>> example(const std::string& rule, uint64_t seed) {
  std::optional<std::pair<Graph, Graph>> found = rule_example(rule, seed);
  if (!found) return std::nullopt;
  return std::pair(shared(std::move(found->first)), shared(std::move(found->second)));
}

std::pair<PyGraph, std::vector<std::string>> at_random(const PyGraph& g, int count, uint64_t seed,
                                                       const std::vector<std::string>& only) {
  Rewritten made = rewrite_at_random(*g.graph, count, seed, only);
  return {shared(std::move(made.graph)), std::move(made.rules)};
}

// (rule, matches, applied, seconds saved, change of the peak)
using PyEffect = std::tuple<std::string, int, int, Seconds, Bytes>;

std::vector<PyEffect> effects(const PyGraph& g, const PyDevice& device) {
  std::vector<PyEffect> found;
  for (const RuleEffect& effect : rule_effects(*g.graph, profile_of(device))) {
    found.emplace_back(effect.rule, effect.matches, effect.applied, effect.saved,
                       effect.peak_change);
  }
  return found;
}

}  // namespace

void bind_rewriting(nb::module_& m) {
  m.def("rewrite_rules", [] { return as_tuples(rewrite_rules()); });
  m.def(
      "check_rules",
      [](const std::string& text, const std::string& file_name) {
        return as_tuples(check_rules(text, file_name));
      },
      "text"_a, "file_name"_a = "<text>");
  m.def("rule_example", &example, "rule"_a, nb::kw_only(), "seed"_a);
  m.def(
      "count_matches", [](const PyGraph& g) { return count_matches(*g.graph); }, "graph"_a);
  m.def("rule_effects", &effects, "graph"_a, nb::kw_only(), "device"_a);
  m.def(
      "rewrite",
      [](const PyGraph& g, const PyDevice& device, bool merge) {
        return shared(rewrite_to_save_time(*g.graph, profile_of(device), merge));
      },
      "graph"_a, nb::kw_only(), "device"_a, "merge"_a = false);
  m.def("rewrite_at_random", &at_random, "graph"_a, nb::kw_only(), "count"_a, "seed"_a,
        "only"_a = std::vector<std::string>());
}

}  // namespace magis
