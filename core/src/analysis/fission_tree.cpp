#include "magis/analysis/fission_tree.h"

#include <algorithm>
#include <utility>

#include "magis/base/error.h"

namespace magis {
namespace {

const FissionRegion& region_of(const FissionTree& tree, int node) {
  return tree.nodes[static_cast<std::size_t>(node)].region;
}

// The label that `region` gives `op`; invalid if it is not in it.
Label label_in(const FissionRegion& region, OpId op) {
  const auto at = std::ranges::lower_bound(region.operators, op);
  if (at == region.operators.end() || *at != op) return {};
  return region.labels[static_cast<std::size_t>(at - region.operators.begin())];
}

// Whether `inner` can stand inside `outer`: all of its operators do, and they are split along the
// same axis everywhere or nowhere.
bool can_nest(const FissionRegion& outer, const FissionRegion& inner) {
  if (outer.operators.size() < inner.operators.size() ||
      outer.operators.front() > inner.operators.front() ||
      outer.operators.back() < inner.operators.back()) {
    return false;
  }
  std::size_t same = 0;
  std::size_t o = 0;
  for (std::size_t i = 0; i < inner.operators.size(); ++i) {
    while (o < outer.operators.size() && outer.operators[o] < inner.operators[i]) ++o;
    if (o == outer.operators.size() || outer.operators[o] != inner.operators[i]) return false;
    if (outer.labels[o] == inner.labels[i]) {
      ++same;
    } else if (outer.labels[o].axis == inner.labels[i].axis) {
      return false;
    }
    if (same != 0 && same != i + 1) return false;
  }
  return true;
}

int64_t units_of(const FissionTree& tree, int node) {
  return tree.nodes[static_cast<std::size_t>(node)].units;
}

}  // namespace

bool FissionTree::same_axis(int ancestor, int node) const {
  const FissionRegion& inner = region_of(*this, node);
  return units_of(*this, ancestor) == units_of(*this, node) &&
         label_in(region_of(*this, ancestor), inner.operators.front()) == inner.labels.front();
}

bool FissionTree::has_enabled_ancestor(int node) const {
  for (int up = nodes[static_cast<std::size_t>(node)].parent; up >= 0;
       up = nodes[static_cast<std::size_t>(up)].parent) {
    if (nodes[static_cast<std::size_t>(up)].enabled()) return true;
  }
  return false;
}

bool FissionTree::has_enabled_descendant(int node) const {
  for (const FissionNode& other : nodes) {
    if (!other.enabled()) continue;
    for (int up = other.parent; up >= 0; up = nodes[static_cast<std::size_t>(up)].parent) {
      if (up == node) return true;
    }
  }
  return false;
}

bool FissionTree::is_leaf(int node) const {
  return std::ranges::none_of(nodes, [&](const FissionNode& n) { return n.parent == node; });
}

FissionTree nest_regions(const AxisGraph& axes, std::vector<FissionRegion> regions) {
  // Larger ones first: a region's parent is before it.
  std::ranges::stable_sort(regions, [](const FissionRegion& a, const FissionRegion& b) {
    if (a.operators.size() != b.operators.size()) return a.operators.size() > b.operators.size();
    return a.operators.front() < b.operators.front();
  });
  FissionTree tree;
  for (FissionRegion& region : regions) {
    region.children.clear();
    const auto equal = [&](const FissionNode& n) {
      return n.region.operators == region.operators && n.region.labels == region.labels;
    };
    if (std::ranges::any_of(tree.nodes, equal)) continue;
    FissionNode node;
    for (int n = static_cast<int>(tree.nodes.size()) - 1; n >= 0; --n) {
      // The smallest that holds it; further up, all around that one have to hold it as well.
      if (!can_nest(region_of(tree, n), region)) continue;
      bool fits = true;
      for (int up = tree.nodes[static_cast<std::size_t>(n)].parent; up >= 0 && fits;
           up = tree.nodes[static_cast<std::size_t>(up)].parent) {
        fits = can_nest(region_of(tree, up), region);
      }
      if (!fits) continue;
      node.parent = n;
      break;
    }
    node.region = std::move(region);
    const auto units = axes.length_along(node.region.operators.front(), node.region.labels.front());
    MAGIS_CHECK(units.has_value(), describe(axes.graph(), node.region.operators.front()));
    node.units = *units;
    tree.nodes.push_back(std::move(node));
  }
  return tree;
}

namespace {

void flatten(std::span<const FissionRegion> regions, std::vector<FissionRegion>& flat) {
  for (const FissionRegion& region : regions) {
    flat.push_back(region);
    flatten(region.children, flat);
  }
}

// Lines 6 to 15 of Alg. 1 for one labelling.
class LabellingCandidates {
 public:
  LabellingCandidates(const AxisGraph& axes, const Labelling& labelling, const Hotspots& hotspots,
                      const FissionTreeOptions& options, const OpWeights& weights)
      : axes_(axes),
        labelling_(labelling),
        hotspots_(hotspots),
        options_(options),
        weights_(weights),
        tree_(dominator_tree(axes, labelling, hotspots)),
        scores_(score_dominators(axes, tree_, hotspots)) {}

  void add_to(std::vector<FissionRegion>& regions) const {
    Bytes best = 0;
    for (int n = 0; n < tree_.size(); ++n) best = std::max(best, scores_.twice_score(n));
    if (best <= 0) return;
    for (int level = 1; level <= options_.levels; ++level) {
      for (const int n : chosen(level, best)) {
        if (auto region = candidate(n)) regions.push_back(*std::move(region));
      }
    }
  }

 private:
  // The nodes of a level that dominate no other of that level: level/L <= score/best <
  // (level+1)/L.
  std::vector<int> chosen(int level, Bytes best) const {
    std::vector<bool> above(static_cast<std::size_t>(tree_.size()), false);
    std::vector<int> found;
    for (int n = tree_.size() - 1; n >= 0; --n) {
      const Bytes scaled = scores_.twice_score(n) * options_.levels;
      const bool in_level = scaled >= level * best && scaled < (level + 1) * best;
      if (in_level && !above[static_cast<std::size_t>(n)]) found.push_back(n);
      if (n > 0 && (in_level || above[static_cast<std::size_t>(n)])) {
        above[static_cast<std::size_t>(tree_.parent(n))] = true;
      }
    }
    std::ranges::reverse(found);
    return found;
  }

  std::optional<FissionRegion> candidate(int node) const {
    const std::vector<OpId> dominated = tree_.dominated(node);
    auto region = largest_region(axes_, labelling_, dominated, weights_);
    if (!region) return std::nullopt;
    if (!options_.repair && region->operators.size() != dominated.size()) return std::nullopt;
    if (options_.price_results && estimated_saving(axes_, *region, hotspots_) <= 0) {
      return std::nullopt;
    }
    return region;
  }

  const AxisGraph& axes_;
  const Labelling& labelling_;
  const Hotspots& hotspots_;
  const FissionTreeOptions& options_;
  const OpWeights& weights_;
  DominatorTree tree_;
  DominatorScores scores_;
};

}  // namespace

OpWeights hotspot_weights(const Graph& graph, const Hotspots& hotspots) {
  OpWeights weights(graph.op_count(), 1);
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    for (const TensorId made : graph.makes(OpId(o))) weights[OpId(o)] += hotspots[made];
  }
  return weights;
}

FissionTree make_fission_tree(const AxisGraph& axes, const Hotspots& hotspots,
                              const FissionTreeOptions& options,
                              std::span<const FissionRegion> enabled) {
  const OpWeights weights = hotspot_weights(axes.graph(), hotspots);
  std::vector<FissionRegion> regions;
  flatten(enabled, regions);  // first: of equal regions the first is kept
  for (const Labelling& labelling : find_labellings(axes, hotspots, options.labelling_limit)) {
    LabellingCandidates(axes, labelling, hotspots, options, weights).add_to(regions);
  }
  return nest_regions(axes, std::move(regions));
}

std::vector<FissionRegion> enabled_regions(const FissionTree& tree) {
  // Children before parents: each moves into the nearest enabled node around it.
  std::vector<FissionRegion> regions(tree.nodes.size());
  std::vector<FissionRegion> top;
  for (int n = static_cast<int>(tree.nodes.size()) - 1; n >= 0; --n) {
    const FissionNode& node = tree.nodes[static_cast<std::size_t>(n)];
    if (!node.enabled()) continue;
    FissionRegion& region = regions[static_cast<std::size_t>(n)];
    std::vector<FissionRegion> children = std::move(region.children);
    region = node.region;
    region.children = std::move(children);
    std::ranges::sort(region.children, {}, [](const auto& r) { return r.operators.front(); });
    int up = node.parent;
    while (up >= 0 && !tree.nodes[static_cast<std::size_t>(up)].enabled()) {
      up = tree.nodes[static_cast<std::size_t>(up)].parent;
    }
    auto& around = up >= 0 ? regions[static_cast<std::size_t>(up)].children : top;
    around.push_back(std::move(region));
  }
  std::ranges::sort(top, {}, [](const auto& r) { return r.operators.front(); });
  return top;
}

std::string to_text(const Graph& graph, const FissionTree& tree) {
  std::string text;
  const auto name = [&](OpId op) { return "%" + graph.name(op); };
  const auto print = [&](auto&& self, int parent, const std::string& indent) -> void {
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      const FissionNode& node = tree.nodes[n];
      if (node.parent != parent) continue;
      const FissionRegion& region = node.region;
      text += indent + "n " + std::to_string(region.part_count()) + ", part " +
              std::to_string(region.part) + " of " + std::to_string(region.length) + ": " +
              name(region.operators.front()) + " .. " + name(region.operators.back()) + ", " +
              std::to_string(region.operators.size()) + " operators\n";
      self(self, static_cast<int>(n), indent + "  ");
    }
  };
  print(print, -1, "");
  return text;
}

}  // namespace magis
