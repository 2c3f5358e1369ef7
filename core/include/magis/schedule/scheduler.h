// The order of operators: least peak memory, nothing recomputed (paper sections 6.1 and 7.3).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "magis/schedule/scheduling_problem.h"

namespace magis {

struct Schedule {
  std::vector<NodeId> order;
  Bytes peak = 0;      // transient
  bool exact = false;  // no order has a lower peak
};

struct FullScheduleOptions {
  int states = 4'000;  // a piece's downsets that one search explores before it commits itself
  int beam = 8;        // downsets of each length where that does not lead to an end; 0: no beam
  int window = 128;    // nodes of a stretch scheduled at once; longer pieces are swept; at most 256
  int rounds = 8;      // of passes over the order, at most
  // Asked between pieces: true ends the work, what was found so far counts. Empty: never.
  std::function<bool()> stop = {};
};

// Schedules the whole problem. Never worse than `given`, a valid order, and `given` itself unless
// something is better.
Schedule schedule_fully(const SchedulingProblem& problem, std::span<const NodeId> given,
                        const FullScheduleOptions& options = {});
// Never worse than program order.
Schedule schedule_fully(const SchedulingProblem& problem, const FullScheduleOptions& options = {});

// The valid order nearest to a ranking: always the node of least rank among those that may run
// next. It carries an order over to a rewritten graph: what remains ranks as it stood, what is new
// as what it replaces. Ranks are small numbers, not negative; of equals the earlier in program
// order comes first. Linear where the ranking itself is valid.
std::vector<NodeId> order_by_rank(const SchedulingProblem& problem, std::span<const int> rank);

struct RescheduleOptions {
  // How far the interval reaches beyond what changed (the paper's constants): while at most
  // `farthest` nodes were passed, each with fewer unrelated nodes (nw) than the one before, and the
  // last had more than `narrow_enough` or the next has fewer than `narrow`.
  int farthest = 20;
  int narrow_enough = 10;
  int narrow = 4;
  // Beyond the paper: where the peak then stands within a window of the interval, that window is
  // scheduled too, at most so often while the peak falls. 0: the interval alone.
  int peak_windows = 16;
  // As in FullScheduleOptions.
  int states = 1'000;
  int beam = 4;
  int window = 64;
};

// Puts an order in order again after a change nearby (paper section 6.1, Alg. 2): only an interval
// around what changed is scheduled, by the code of the full scheduler. Keeps its working memory
// from call to call; one object per thread.
class IncrementalScheduler {
 public:
  explicit IncrementalScheduler(const RescheduleOptions& options = {});
  ~IncrementalScheduler();
  IncrementalScheduler(IncrementalScheduler&&) noexcept;
  IncrementalScheduler& operator=(IncrementalScheduler&&) noexcept;

  struct Interval {  // positions in the order
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // Requires a valid order of all nodes and at least one changed node. The peak does not rise;
  // nodes outside of the returned interval stay where they are. Cost: one pass over the graph of a
  // few nanoseconds per edge, and the interval's scheduling.
  Interval reschedule(const SchedulingProblem& problem, std::span<const NodeId> changed,
                      std::vector<NodeId>& order);

 private:
  struct Workspace;
  RescheduleOptions options_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace magis
