// Operators as the regions around them split them: their axes, how their results depend on the
// parts, what they add to a sum.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "magis/graph/axes.h"
#include "magis/graph/graph.h"
#include "transform/addend.h"
#include "transform/region_tree.h"

namespace magis {

// How the parts of a result are put together: "magis.add_part" for a sum.
std::string_view combining_operator(Dependence dependence);

class SplitOperators {
 public:
  // Keeps references to both.
  SplitOperators(const Graph& graph, const RegionTree& tree)
      : graph_(graph), tree_(tree), signatures_(graph.op_count()), addends_(graph.op_count()) {}

  // Throws NoFission if the operator has none.
  const AxisSignature& signature(OpId op);
  Dependence dependence(OpId op, std::size_t result, RegionIndex region);
  // The operator that makes a tensor, and which of its results it is.
  std::pair<OpId, std::size_t> maker(TensorId tensor) const;

  // What `op` adds once to a sum that regions split; null for other operators. Its parts leave it
  // out in the body of summing_region(op) and further in: the outermost region whose parts' sum the
  // result is. Throws NoFission if the addend is made there.
  const Addend* addend(OpId op);
  RegionIndex summing_region(OpId op);
  // Whether the body of `region` needs a tensor that its operators name.
  bool is_read_in(RegionIndex region, TensorId tensor);

 private:
  std::optional<Addend> find_split_addend(OpId op);
  bool is_addend_alone(OpId op, TensorId tensor);
  std::string name_of(OpId op) const {
    return "%" + graph_.name(op) + " = " + graph_.op(op).info->name;
  }

  const Graph& graph_;
  const RegionTree& tree_;
  IdMap<OpId, std::optional<AxisSignature>> signatures_;
  IdMap<OpId, std::optional<std::optional<Addend>>> addends_;
};

}  // namespace magis
