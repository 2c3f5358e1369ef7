// Small graphs, and operators by name, for the tests of fission's analysis.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "magis/analysis/axis_graph.h"
#include "magis/analysis/region.h"
#include "magis/graph/text.h"

namespace magis::test {

inline Graph parse_body(const std::string& body) {
  return parse_graph("magis 1\ndevice cpu\n" + body, "graph");
}

// The operator whose first result is %name.
inline OpId find_op(const Graph& graph, std::string_view name) {
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    if (graph.name(OpId(o)) == name) return OpId(o);
  }
  ADD_FAILURE() << "no operator %" << name;
  return OpId();
}

// "q k v": names of the first results, in program order.
inline std::string names(const Graph& graph, const std::vector<OpId>& operators) {
  std::string text;
  for (const OpId op : operators) {
    text += (text.empty() ? "" : " ") + graph.name(op);
  }
  return text;
}

// A region of the named operators with the labels that `labelling` gives them.
inline FissionRegion make_region(const Graph& graph, const Labelling& labelling,
                                 std::initializer_list<std::string_view> operators,
                                 int64_t part = 1) {
  FissionRegion region;
  region.length = labelling.length;
  region.part = part;
  for (const std::string_view name : operators) region.operators.push_back(find_op(graph, name));
  std::ranges::sort(region.operators);
  for (const OpId op : region.operators) region.labels.push_back(labelling.labels[op]);
  return region;
}

}  // namespace magis::test
