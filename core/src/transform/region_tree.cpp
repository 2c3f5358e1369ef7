#include "transform/region_tree.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "magis/base/error.h"

namespace magis {

RegionTree::RegionTree(const Graph& graph, std::span<const FissionRegion> regions)
    : graph_(graph), around_(graph.op_count(), kOutside) {
  for (const FissionRegion& region : regions) add(region, kOutside);
  find_crossings();
}

void RegionTree::add(const FissionRegion& region, RegionIndex parent) {
  MAGIS_CHECK(region.operators.size() == region.labels.size(), "a label for every operator");
  RegionIndex inner = parent;
  if (region.part < region.length) {
    inner = static_cast<RegionIndex>(regions_.size());
    Region row;
    row.name = "r" + std::to_string(inner + 1);
    row.parent = parent;
    row.length = region.length;
    row.part = region.part;
    row.labels = IdMap<OpId, Label>(graph_.op_count());
    for (std::size_t i = 0; i < region.operators.size(); ++i) {
      const OpId op = region.operators[i];
      row.labels[op] = region.labels[i];
      around_[op] = inner;
    }
    find_region_to_split(row);
    regions_.push_back(std::move(row));
  }
  for (const FissionRegion& child : region.children) add(child, inner);
}

// Finds the innermost region around on whose axis `row` is too.
void RegionTree::find_region_to_split(Region& row) const {
  for (RegionIndex around = row.parent; around != kOutside; around = (*this)[around].parent) {
    int64_t ratio = 0;
    bool differ = false;
    bool first = true;
    for (std::size_t o = 0; o < graph_.op_count(); ++o) {
      const Label& label = row.labels[OpId(o)];
      if (!label.valid()) continue;
      const Label& outer = (*this)[around].labels[OpId(o)];
      MAGIS_CHECK(outer.valid(), "operator " << o << " is not in the region around");
      const bool same_axis = outer.axis == label.axis;
      const int64_t here = same_axis ? outer.step / label.step : 0;
      differ = differ || (same_axis && outer.step % label.step != 0) || (!first && here != ratio);
      ratio = here;
      first = false;
    }
    if (differ) {
      throw NoFission{row.name + " splits the axis of " + (*this)[around].name + " in other units"};
    }
    if (ratio == 0) continue;
    row.splits = around;
    row.ratio = ratio;
    return;
  }
}

void RegionTree::find_crossings() {
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    const auto region = static_cast<RegionIndex>(r);
    for (std::size_t t = 0; t < graph_.tensors().size(); ++t) {
      const Tensor& tensor = graph_.tensor(TensorId(t));
      if (tensor.is_input) continue;
      const bool made_inside = contains(region, tensor.producer);
      const bool crosses = std::ranges::any_of(graph_.uses(TensorId(t)), [&](EdgeId use) {
        return contains(region, graph_.edge_op(use)) != made_inside;
      });
      if (made_inside && (crosses || tensor.is_output)) {
        regions_[r].results.emplace_back(t);
      } else if (!made_inside && crosses) {
        regions_[r].reads.emplace_back(t);
      }
    }
  }
}

std::vector<RegionIndex> RegionTree::chain(RegionIndex region) const {
  std::vector<RegionIndex> rows;
  for (; region != kOutside; region = (*this)[region].parent) rows.push_back(region);
  std::ranges::reverse(rows);
  return rows;
}

RegionIndex RegionTree::common(RegionIndex a, RegionIndex b) const {
  const std::vector<RegionIndex> first = chain(a);
  const std::vector<RegionIndex> second = chain(b);
  RegionIndex shared = kOutside;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i] != second[i]) break;
    shared = first[i];
  }
  return shared;
}

std::vector<RegionTree::Step> RegionTree::body(RegionIndex region) const {
  // Which step an operator belongs to; a region's key is that of its last operator.
  std::vector<Step> steps;
  std::vector<int32_t> keys;
  IdMap<OpId, int32_t> step_of(graph_.op_count(), -1);
  std::vector<int32_t> step_of_region(regions_.size(), -1);
  for (std::size_t o = 0; o < graph_.op_count(); ++o) {
    const OpId op(o);
    if (!contains(region, op)) continue;
    RegionIndex inside = around_[op];
    while (inside != region && (*this)[inside].parent != region) inside = (*this)[inside].parent;
    if (inside == region) {
      step_of[op] = static_cast<int32_t>(steps.size());
      steps.push_back({op, kOutside});
      keys.push_back(op.index);
      continue;
    }
    int32_t& step = step_of_region[static_cast<std::size_t>(inside)];
    if (step < 0) {
      step = static_cast<int32_t>(steps.size());
      steps.push_back({OpId(), inside});
      keys.push_back(op.index);
    }
    step_of[op] = step;
    keys[static_cast<std::size_t>(step)] = op.index;
  }
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (std::size_t o = 0; o < graph_.op_count(); ++o) {
    const int32_t after = step_of[OpId(o)];
    if (after < 0) continue;
    for (const OpId predecessor : graph_.predecessors(OpId(o))) {
      const int32_t before = step_of[predecessor];
      if (before >= 0 && before != after) edges.emplace_back(before, after);
    }
  }
  std::ranges::sort(edges);
  const auto repeated = std::ranges::unique(edges);
  edges.erase(repeated.begin(), repeated.end());
  std::vector<int> missing(steps.size(), 0);
  for (const auto& [before, after] : edges) ++missing[static_cast<std::size_t>(after)];
  const auto followers = Rows<std::pair<int32_t, int32_t>>::group(
      steps.size(), edges, [](const auto& edge) { return static_cast<std::size_t>(edge.first); });

  using Ready = std::pair<int32_t, std::size_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (missing[s] == 0) ready.emplace(keys[s], s);
  }
  std::vector<Step> order;
  while (!ready.empty()) {
    const std::size_t s = ready.top().second;
    ready.pop();
    order.push_back(steps[s]);
    for (const auto& [before, after] : followers[s]) {
      const auto next = static_cast<std::size_t>(after);
      if (--missing[next] == 0) ready.emplace(keys[next], next);
    }
  }
  MAGIS_CHECK(order.size() == steps.size(), "a region is left and entered again");
  return order;
}

}  // namespace magis
