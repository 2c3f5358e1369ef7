#include "transform/split_operators.h"

#include <algorithm>

#include "magis/graph/builder.h"

namespace magis {

std::string_view combining_operator(Dependence dependence) {
  switch (dependence) {
    case Dependence::sliced:
      return "magis.write_part";
    case Dependence::sum:
      return "magis.add_part";
    case Dependence::maximum:
      return "magis.max_part";
    case Dependence::minimum:
      return "magis.min_part";
    case Dependence::product:
      return "magis.mul_part";
    case Dependence::any:
      return "magis.any_part";
    case Dependence::all:
      return "magis.all_part";
    case Dependence::once:
      return "magis.keep_part";
  }
  return "";
}

const AxisSignature& SplitOperators::signature(OpId op) {
  std::optional<AxisSignature>& known = signatures_[op];
  if (!known) known = axis_signature(graph_, op);
  if (!known) throw NoFission{name_of(op) + " has no axes to split"};
  return *known;
}

Dependence SplitOperators::dependence(OpId op, std::size_t result, RegionIndex region) {
  const int axis = tree_[region].labels[op].axis;
  return signature(op).dependence.at(result).at(static_cast<std::size_t>(axis));
}

std::pair<OpId, std::size_t> SplitOperators::maker(TensorId tensor) const {
  const OpId op = graph_.tensor(tensor).producer;
  const auto& results = graph_.op(op).results;
  const auto result = std::ranges::find(results, graph_.tensor(tensor).value);
  return {op, static_cast<std::size_t>(result - results.begin())};
}

const Addend* SplitOperators::addend(OpId op) {
  std::optional<std::optional<Addend>>& known = addends_[op];
  if (!known) known = find_split_addend(op);
  return *known ? &**known : nullptr;
}

std::optional<Addend> SplitOperators::find_split_addend(OpId op) {
  if (tree_.around(op) == kOutside) return std::nullopt;
  std::optional<Addend> found = find_addend(graph_, op, signature(op));
  if (!found || summing_region(op) == kOutside) return std::nullopt;
  const ValueId value = std::get<ValueId>(graph_.op(op).args[found->argument].value);
  const OpId producer = graph_.tensor(graph_.value(value).tensor).producer;
  if (producer.valid() && tree_.contains(summing_region(op), producer)) {
    throw NoFission{name_of(op) + " adds %" + graph_.value(value).name +
                    " once, but every part makes it"};
  }
  return found;
}

RegionIndex SplitOperators::summing_region(OpId op) {
  for (const RegionIndex region : tree_.chain(tree_.around(op))) {
    if (dependence(op, 0, region) == Dependence::sum) return region;
  }
  return kOutside;
}

bool SplitOperators::is_read_in(RegionIndex region, TensorId tensor) {
  return std::ranges::any_of(graph_.uses(tensor), [&](EdgeId use) {
    const OpId op = graph_.edge_op(use);
    if (!tree_.contains(region, op)) return false;
    const Addend* added = addend(op);
    if (added == nullptr || !added->droppable || !is_addend_alone(op, tensor)) return true;
    const RegionIndex summing = summing_region(op);
    return tree_.common(summing, region) != summing;  // added in the body around
  });
}

bool SplitOperators::is_addend_alone(OpId op, TensorId tensor) {
  std::size_t operand = 0;
  bool alone = true;
  for_each_value(graph_.op(op), [&](ValueId id) {
    alone = alone && (graph_.value(id).tensor != tensor || operand == addend(op)->operand);
    ++operand;
  });
  return alone;
}

}  // namespace magis
