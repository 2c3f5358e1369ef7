// Gaps of decisions, written with names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "magis/schedule/decisions.h"

namespace magis::test {

// An operator is named by its first result.
OpId op_named(const Graph& graph, std::string_view result);

// `tensor` is away before `use` reads it: from in front of `release` to in front of `load`.
struct NamedGap {
  std::string use;
  std::string tensor;
  std::string release;
  std::string load;
};

// The edge by which `use` reads `tensor`.
EdgeId edge_named(const Graph& graph, std::string_view use, std::string_view tensor);

// Sets the modes of the uses too.
void add_gaps(const Graph& graph, const std::vector<NamedGap>& gaps, Decisions& decisions);

}  // namespace magis::test
