// The fission tree: nested candidates for fission, and the steps by which they are enabled (paper
// sections 4.3 and 5.1, F-Tree).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "magis/analysis/axis_graph.h"
#include "magis/analysis/dominators.h"
#include "magis/analysis/largest_region.h"
#include "magis/analysis/region.h"

namespace magis {

// Bytes of the tensors that are live at the peak; 0 for all others. Inputs do not count.
using Hotspots = IdMap<TensorId, Bytes>;

// For largest_region: the hotspots that an operator makes, and 1 so that more is better than less.
OpWeights hotspot_weights(const Graph& graph, const Hotspots& hotspots);

// Labellings that cover every splittable axis of every operator that makes a hotspot: first along
// each dimension of the inputs that come with the batch, then one unit per element from the largest
// hotspot's operator down. At most `limit`.
std::vector<Labelling> find_labellings(const AxisGraph& axes, const Hotspots& hotspots, int limit);

// The labelled operators as a flow graph. The root leads to the labelled readers of the batch
// input that reaches most of the hotspots; where no batch input has the axis, to the operators that
// depend on the batch and read nothing labelled.
DominatorTree dominator_tree(const AxisGraph& axes, const Labelling& labelling,
                             const Hotspots& hotspots);

// Per node of the dominator tree: heat is the bytes of the hotspots that it dominates (its own
// apart), and score estimates what splitting what it dominates in two saves: half of the heat less
// the inputs of that set that are not live at the peak anyway.
struct DominatorScores {
  std::vector<Bytes> heat;
  std::vector<Bytes> inputs;
  Bytes twice_score(int node) const {
    const auto n = static_cast<std::size_t>(node);
    return heat[n] - 2 * inputs[n];
  }
};
DominatorScores score_dominators(const AxisGraph& axes, const DominatorTree& tree,
                                 const Hotspots& hotspots);

// What splitting `region` in two saves of the peak at which `hotspots` are live: half of the
// hotspots that become part-sized, less what has to exist in full while the region runs and is not
// live at the peak anyway - concatenated results, accumulators, tensors read from outside. Children
// are ignored.
Bytes estimated_saving(const AxisGraph& axes, const FissionRegion& region,
                       const Hotspots& hotspots);

// Bytes of every tensor where `regions` run in parts: what a region slices is as large as a part.
using TensorSizes = IdMap<TensorId, Bytes>;
TensorSizes sizes_in_parts(const AxisGraph& axes, std::span<const FissionRegion> regions);
// The saving for a plan in which tensors have these sizes.
Bytes estimated_saving(const AxisGraph& axes, const FissionRegion& region, const Hotspots& hotspots,
                       const TensorSizes& sizes);

struct FissionNode {
  FissionRegion region;  // without children; part == length: disabled, a candidate
  int64_t units = 0;     // length of the axis in the unsplit graph
  int parent = -1;       // the smallest region around it with which it can be nested
  bool enabled() const { return region.part < region.length; }
};

struct FissionTree {
  std::vector<FissionNode> nodes;  // parents before children
  // Whether the operators of `node` have the labels that `ancestor` gives them.
  bool same_axis(int ancestor, int node) const;
  bool has_enabled_ancestor(int node) const;
  bool has_enabled_descendant(int node) const;
  bool is_leaf(int node) const;
};

// Nests regions (each valid; their children are ignored). Equal regions are kept once.
FissionTree nest_regions(const AxisGraph& axes, std::vector<FissionRegion> regions);

struct FissionTreeOptions {
  int levels = 4;  // L of Alg. 1
  int labelling_limit = 512;
  // Where what a chosen operator dominates is no valid region, take the largest one inside. The
  // paper drops it.
  bool repair = true;
  // Drop candidates whose estimated_saving is not positive. The paper's score does not price what
  // is read outside.
  bool price_results = true;
};
// Alg. 1 on every labelling. Regions of `enabled` (with their parts; nested ones flattened) are in
// the tree as well.
FissionTree make_fission_tree(const AxisGraph& axes, const Hotspots& hotspots,
                              const FissionTreeOptions& options = {},
                              std::span<const FissionRegion> enabled = {});

enum class MutationKind : uint8_t {
  enable,       // a disabled leaf, or the parent of an enabled node without enabled ancestors
  lift,         // disables an enabled node without enabled ancestors and enables its parent
  disable,      // an enabled node without enabled descendants
  mutate,       // an enabled node's parts become shorter
  mutate_back,  // and longer (not in the paper)
};
std::string_view to_text(MutationKind kind);
struct Mutation {
  MutationKind kind;
  int node;  // the one enabled, lifted, disabled, mutated
  bool operator==(const Mutation&) const = default;
};
// Part lengths that mutations choose from.
enum class PartChoice : uint8_t {
  divisors,  // those that divide the length, as in the paper
  uneven,    // any number of parts, as even as can be: the last part may be shorter
};
// All that apply to the tree, by node. A node that overlaps an enabled one without being nested
// with it is not enabled. Enabling and lifting start with the fewest parts. A nested region on the
// same axis keeps its number of parts when the part that it splits changes, or takes the next one
// that is possible; mutations that leave too short a part for that do not apply. Whether regions
// can run side by side is for why_invalid to say.
std::vector<Mutation> mutations(const FissionTree& tree, PartChoice choice);
FissionTree apply(const FissionTree& tree, Mutation mutation, PartChoice choice);

// The enabled nodes, nested.
std::vector<FissionRegion> enabled_regions(const FissionTree& tree);

// One line per node, indented by depth: "n 2, part 6 of 12: %first .. %last, 5 operators".
std::string to_text(const Graph& graph, const FissionTree& tree);

}  // namespace magis
