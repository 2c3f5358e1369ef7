// Where the paper's search looks for regions, and what tells two choices of them apart.
#pragma once

#include <cstdint>
#include <span>

#include "magis/analysis/fission_tree.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "search/random.h"
#include "search/state_hash.h"

namespace magis {

class PaperRegions {
 public:
  // Keeps references to both.
  PaperRegions(const FissionGround& ground, const OptimizeOptions& options);

  // The fission tree at `hotspots` (Alg. 1), with the enabled regions in it; or, as an ablation,
  // regions at random in its place.
  FissionTree tree(const Hotspots& hotspots, std::span<const FissionRegion> enabled);
  // Equal for regions that are the same; 0: none.
  uint64_t key(std::span<const FissionRegion> regions);

 private:
  std::optional<FissionRegion> random_region();

  const FissionGround& ground_;
  const OptimizeOptions& options_;
  Random random_;
  StateHash hash_;
  const uint64_t unsplit_;
};

}  // namespace magis
