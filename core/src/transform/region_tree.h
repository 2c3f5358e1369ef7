// Regions and their children as one table: which region an operator belongs to, what crosses which
// border, in which order a body runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "magis/analysis/region.h"
#include "magis/graph/graph.h"

namespace magis {

// Why regions cannot be split; fission() returns the reason.
struct NoFission {
  std::string reason;
};

// A row of RegionTree; -1 is the graph outside all regions.
using RegionIndex = int;
inline constexpr RegionIndex kOutside = -1;

class RegionTree {
 public:
  RegionTree(const Graph& graph, std::span<const FissionRegion> regions);

  struct Region {
    std::string name;  // "r1"
    RegionIndex parent = kOutside;
    int64_t length = 0;
    int64_t part = 0;
    RegionIndex splits = kOutside;  // around it, on the same axis: whose part is its length
    int64_t ratio = 1;              // units of this region in one of that one's
    IdMap<OpId, Label> labels;      // invalid for operators outside
    std::vector<TensorId> reads;    // made outside by operators, read inside
    std::vector<TensorId> results;  // made inside, read outside or output
  };
  // One step of a body: an operator, or a whole region inside.
  struct Step {
    OpId op;
    RegionIndex region = kOutside;
  };

  const Region& operator[](RegionIndex region) const {
    return regions_[static_cast<std::size_t>(region)];
  }
  std::size_t size() const { return regions_.size(); }
  // The innermost region around `op`.
  RegionIndex around(OpId op) const { return around_[op]; }
  bool contains(RegionIndex region, OpId op) const {
    return region == kOutside || (*this)[region].labels[op].valid();
  }
  // Regions around what stands directly in `region`, itself included, outermost first.
  std::vector<RegionIndex> chain(RegionIndex region) const;
  // The innermost region that holds both.
  RegionIndex common(RegionIndex a, RegionIndex b) const;
  // Topological, in program order where that leaves a choice.
  std::vector<Step> body(RegionIndex region) const;

 private:
  void add(const FissionRegion& region, RegionIndex parent);
  void find_region_to_split(Region& row) const;
  void find_crossings();

  const Graph& graph_;
  std::vector<Region> regions_;
  IdMap<OpId, RegionIndex> around_;
};

}  // namespace magis
