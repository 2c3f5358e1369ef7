// The graph that a state of the paper's search stands on: the one given, or one that rewrite rules
// made of it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "magis/graph/text.h"
#include "magis/search/fission_ground.h"
#include "magis/search/optimize.h"
#include "search/objective.h"
#include "search/paper_regions.h"
#include "search/split_problem.h"

namespace magis {

struct PaperSource {
  // Keeps references to all but the graph.
  PaperSource(std::shared_ptr<const Graph> of, const DeviceProfile& profile,
              const OptimizeOptions& options)
      : graph(std::move(of)),
        key(fingerprint(*graph)),
        ground(*graph, profile),
        regions(ground, options),
        problems(*graph, ground, profile, options.host_memory.value_or(profile.host_memory),
                 options.exact) {}

  const std::shared_ptr<const Graph> graph;
  const uint64_t key;  // tells its states from those of other graphs
  const FissionGround ground;
  PaperRegions regions;
  SplitProblems problems;
  Picoseconds least_time = 0;  // no operator runs twice, nothing in parts
  bool rewritten = false;      // what rules make of it was looked at
};

}  // namespace magis
