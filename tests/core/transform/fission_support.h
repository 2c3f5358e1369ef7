// Regions written by hand, and graphs split by them, for the tests of fission.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "magis/graph/text.h"
#include "magis/transform/fission.h"

namespace magis {

inline OpId op_named(const Graph& graph, std::string_view result) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    if (graph.name(OpId(i)) == result) return OpId(i);
  }
  ADD_FAILURE() << "no operator makes %" << result;
  return {};
}

// Operators by name, with their labels; program order is the order of the graph.
inline FissionRegion region_of(const Graph& graph, const std::map<std::string, Label>& labels,
                               int64_t length, int64_t part) {
  std::map<OpId, Label> by_op;
  for (const auto& [name, label] : labels) by_op[op_named(graph, name)] = label;
  FissionRegion region;
  for (const auto& [op, label] : by_op) {
    region.operators.push_back(op);
    region.labels.push_back(label);
  }
  region.length = length;
  region.part = part;
  return region;
}

inline Graph split(const Graph& graph, const std::vector<FissionRegion>& regions) {
  std::variant<Graph, std::string> made = fission(graph, regions);
  if (const auto* why = std::get_if<std::string>(&made)) {
    ADD_FAILURE() << *why;
    return graph;
  }
  verify(std::get<Graph>(made));
  // What is split can be written down and read again.
  const std::string text = to_text(std::get<Graph>(made));
  EXPECT_EQ(to_text(parse_graph(text, "again")), text);
  return std::get<Graph>(std::move(made));
}

inline std::string body(const Graph& graph) {
  const std::string text = to_text(graph);
  const std::size_t begin = text.find("\n\n%") + 2;
  return text.substr(begin, text.find("\n\noutput") - begin + 1);
}

}  // namespace magis
