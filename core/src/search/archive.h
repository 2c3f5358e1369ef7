// Every trade of memory for time that a search comes by: the fastest schedule within each small
// range of peaks.
#pragma once

#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "magis/schedule/decisions.h"
#include "search/objective.h"

namespace magis {

struct ArchivedSchedule {
  Cost cost;
  Decisions decisions;
};

// Entries sorted by peak, each faster than all that are smaller, and at most one to a range: a
// frontier.
template <class Entry>
class Archive {
 public:
  // Whether a schedule of that cost would be taken.
  bool wants(const Cost& cost) const {
    const auto range = entries_.find(range_of(cost.peak));
    if (range != entries_.end() && !less(cost, range->second.cost)) return false;
    // The fastest of all that are smaller is the largest of them.
    auto smaller = entries_.lower_bound(range_of(cost.peak));
    return smaller == entries_.begin() || cost.time < std::prev(smaller)->second.cost.time;
  }
  // Takes it, and drops what it makes pointless. Requires wants(entry.cost).
  void put(Entry entry) {
    const int range = range_of(entry.cost.peak);
    auto larger = entries_.upper_bound(range);
    while (larger != entries_.end() && larger->second.cost.time >= entry.cost.time) {
      larger = entries_.erase(larger);
    }
    entries_.insert_or_assign(range, std::move(entry));
  }
  const std::map<int, Entry>& entries() const { return entries_; }
  std::map<int, Entry> take() { return std::move(entries_); }
  // The best by that objective; null if there is nothing.
  const Entry* best(const Objective& objective) const {
    const Entry* best = nullptr;
    for (const auto& [range, entry] : entries_) {
      if (!best || objective.better(entry.cost, best->cost)) best = &entry;
    }
    return best;
  }

 private:
  // Two per cent of the peak to a range: what is closer is no choice of interest.
  static int range_of(Bytes peak) {
    constexpr double kRange = 0.02;
    return static_cast<int>(std::log(static_cast<double>(peak) + 1) / kRange);
  }
  static bool less(const Cost& a, const Cost& b) {
    return std::tuple(a.time, a.peak) < std::tuple(b.time, b.peak);
  }

  std::map<int, Entry> entries_;
};

using ScheduleArchive = Archive<ArchivedSchedule>;

}  // namespace magis
