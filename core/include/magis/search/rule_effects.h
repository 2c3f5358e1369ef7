// What each rewrite rule would do to a graph by itself, and what comes of it by all of them.
#pragma once

#include <string>
#include <vector>

#include "magis/simulate/profile.h"

namespace magis {

struct RuleEffect {
  std::string rule;
  int matches = 0;        // places where it applies, views being the same where they are equal
  int applied = 0;        // of these, as often as that saves time; wherever it can, if it splits
  Seconds saved = 0;      // by all of them
  Bytes peak_change = 0;  // in program order
};

// One for each rule that matches. Requires a graph without loops.
std::vector<RuleEffect> rule_effects(const Graph& graph, const DeviceProfile& profile);

// The graph after all rewrites that save time. Those that raise the peak in program order, or merge
// what is read at different times, are among them only if `merge` is set.
Graph rewrite_to_save_time(const Graph& graph, const DeviceProfile& profile, bool merge);

}  // namespace magis
