// Which regions are tried, in parts of what length.
#pragma once

#include <functional>
#include <vector>

#include "magis/search/fission_ground.h"
#include "search/objective.h"

namespace magis {

struct Trial {
  std::vector<FissionRegion> regions = {};  // of the opened graph
  bool unsplit = false;                     // the graph as it is, without masks as bits too
  Cost plain = {};                          // in program order
  bool searched = false;
  bool reordered = false;  // its own graph, not only others with the same regions
  // Of the best schedule so far, once it was searched.
  Cost cost = {};
  Hotspots hotspots = {};  // at its peak
  Decisions best = {};
  Decisions constructed = {};  // before it was improved at random; empty: that was not reached
};

// The region along the batch that saves most, in some numbers of parts: found at once,
// or when `stop` says so not at all.
std::vector<Trial> first_trials(const FissionGround& ground, std::function<bool()> stop);

class TrialMaker {
 public:
  // Looks for regions of all sizes: a loss head of seven operators costs less time than half the
  // network; until `stop` says so. Keeps a reference to `ground`.
  TrialMaker(const FissionGround& ground, std::function<bool()> stop);

  // Single regions, those that save most first; each in every number of parts.
  std::size_t region_count() const { return chosen_.size(); }
  std::vector<Trial> trials_of(std::size_t region) const;
  // `trial` with one region more, beside the others or inside one: those that save most of what is
  // live at its peak now.
  std::vector<Trial> extensions(const Trial& trial) const;

 private:
  void add_beside(const std::vector<FissionRegion>& chosen, const FissionRegion& region,
                  std::vector<Trial>& trials) const;
  void add_nested(const std::vector<FissionRegion>& chosen, std::size_t outer,
                  const FissionRegion& region, std::vector<Trial>& trials) const;

  const FissionGround& ground_;
  std::vector<FissionRegion> regions_;
  std::vector<std::size_t> chosen_;  // few of each size
};

}  // namespace magis
