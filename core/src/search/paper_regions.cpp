#include "search/paper_regions.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace magis {
namespace {

void flatten(std::span<const FissionRegion> regions, std::vector<FissionRegion>& flat) {
  for (const FissionRegion& region : regions) {
    flat.push_back(region);
    flatten(region.children, flat);
  }
}

}  // namespace

PaperRegions::PaperRegions(const FissionGround& ground, const OptimizeOptions& options)
    : ground_(ground),
      options_(options),
      random_(options.seed),
      hash_(ground.axes().graph()),
      unsplit_(hash_.value()) {}

FissionTree PaperRegions::tree(const Hotspots& hotspots, std::span<const FissionRegion> enabled) {
  if (!options_.paper.random_fission) {
    // Unpriced, most candidates of a real graph save nothing, and the search drowns in them.
    const FissionTreeOptions tree{
        .levels = options_.paper.max_level, .repair = false, .price_results = true};
    return make_fission_tree(ground_.axes(), hotspots, tree, enabled);
  }
  constexpr int kRegions = 16;
  std::vector<FissionRegion> regions;
  flatten(enabled, regions);
  for (int i = 0; i < kRegions; ++i) {
    if (auto region = random_region()) regions.push_back(*std::move(region));
  }
  return nest_regions(ground_.axes(), std::move(regions));
}

// A node of the D-Graph, and what is valid of a stretch of the operators on its axis.
std::optional<FissionRegion> PaperRegions::random_region() {
  const AxisGraph& axes = ground_.axes();
  const OpId op(random_.below(axes.graph().op_count()));
  const AxisSignature* signature = axes.signature(op);
  if (signature == nullptr || signature->axes.empty()) return std::nullopt;
  const auto axis = static_cast<int>(random_.below(signature->axes.size()));
  const Labelling labelling = grow(axes, op, axis);
  if (labelling.operators.empty()) return std::nullopt;
  std::size_t first = random_.below(labelling.operators.size());
  std::size_t last = random_.below(labelling.operators.size());
  if (first > last) std::swap(first, last);
  const std::span<const OpId> stretch(&labelling.operators[first], last - first + 1);
  return largest_region(axes, labelling, stretch, OpWeights(axes.graph().op_count(), 1));
}

uint64_t PaperRegions::key(std::span<const FissionRegion> regions) {
  for (const FissionRegion& region : regions) hash_.add_region(region);
  const uint64_t key = hash_.value() - unsplit_;
  for (const FissionRegion& region : regions) hash_.remove_region(region);
  return key;
}

}  // namespace magis
