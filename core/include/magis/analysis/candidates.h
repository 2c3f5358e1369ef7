// Candidates for fission that dominance alone does not give: stretches of the program between
// narrow waists (some layers, an attention block over heads or query rows, the head of the loss
// over rows), forward, backward, or from a forward waist to a backward one. They survive skip
// connections.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "magis/analysis/fission_tree.h"

namespace magis {

struct FissionCandidate {
  FissionRegion region;  // valid, part == length
  Bytes saving = 0;      // estimated, >= CandidateOptions::least_saving
};

struct CandidateOptions {
  int labelling_limit = 512;
  int regions_per_labelling = 3;  // the largest, the largest in what that leaves over, ...
  int waist_limit = 7;            // stretches begin and end at no more, per direction
  int limit = 256;                // of candidates returned
  Bytes least_saving = 1;         // candidates that save less are left out
  // Asked between labellings and stretches: true ends the search. Empty: never.
  std::function<bool()> stop = {};
};

// Best first; equal savings by size, then program order. Deterministic.
std::vector<FissionCandidate> fission_candidates(const AxisGraph& axes, const Hotspots& hotspots,
                                                 const CandidateOptions& options = {});

}  // namespace magis
