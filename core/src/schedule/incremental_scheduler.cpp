#include <algorithm>
#include <limits>
#include <utility>

#include "magis/base/error.h"
#include "magis/schedule/scheduler.h"
#include "schedule/narrowness.h"
#include "schedule/stretch_scheduler.h"

namespace magis {

struct IncrementalScheduler::Workspace {
  explicit Workspace(const RescheduleOptions& options)
      : stretches({options.states, options.beam}, options.window) {}

  PlacedOrder placed;
  Narrowness narrowness;
  StretchScheduler stretches;
  std::vector<int> candidates;

  // Schedules windows around the peak while it stands near the interval and falls; takes them into
  // the interval.
  void lower_peak(int windows, std::size_t length, Interval& interval);
};

namespace {

// ExtendBound: from the first of the counts on, the number of nodes that the interval takes in.
int extension(const RescheduleOptions& options, std::span<const int> unrelated) {
  int best = std::numeric_limits<int>::max();
  int length = 0;
  for (const int count : unrelated) {
    const bool look_further = best > options.narrow_enough || count < options.narrow;
    if (length == options.farthest || !look_further || count >= best) break;
    best = count;
    ++length;
  }
  return length;
}

std::size_t position_of_peak(const PlacedOrder& placed) {
  LiveBytesOfOrder bytes(*placed.problem);
  Bytes peak = -1;
  std::size_t position = 0;
  for (std::size_t k = 0; k < placed.order.size(); ++k) {
    const Bytes during = bytes.run(placed.order[k]);
    if (during <= peak) continue;
    peak = during;
    position = k;
  }
  return position;
}

}  // namespace

void IncrementalScheduler::Workspace::lower_peak(int windows, std::size_t length,
                                                 Interval& interval) {
  for (int i = 0; i < windows; ++i) {
    const std::size_t peak = position_of_peak(placed);
    const std::size_t begin = peak - std::min(peak, length / 2);
    const std::size_t end = std::min(begin + length, placed.order.size());
    const bool near = begin < interval.end && interval.begin < end;
    if (!near || !stretches.lower_window(placed, begin, end)) return;
    interval = {std::min(interval.begin, begin), std::max(interval.end, end)};
  }
}

IncrementalScheduler::IncrementalScheduler(const RescheduleOptions& options)
    : options_(options), workspace_(std::make_unique<Workspace>(options)) {
  MAGIS_CHECK(2 * (static_cast<std::size_t>(options.farthest) + 1) <= Narrowness::kMostQueries,
              "an interval is extended by " << options.farthest << " nodes");
}
IncrementalScheduler::~IncrementalScheduler() = default;
IncrementalScheduler::IncrementalScheduler(IncrementalScheduler&&) noexcept = default;
IncrementalScheduler& IncrementalScheduler::operator=(IncrementalScheduler&&) noexcept = default;

IncrementalScheduler::Interval IncrementalScheduler::reschedule(const SchedulingProblem& problem,
                                                                std::span<const NodeId> changed,
                                                                std::vector<NodeId>& order) {
  MAGIS_CHECK(!changed.empty() && order.size() == problem.size(),
              changed.size() << " nodes changed; the order has " << order.size() << " of "
                             << problem.size());
  auto& [placed, narrowness, stretches, candidates] = *workspace_;
  placed.assign(problem, order);
  int first = static_cast<int>(order.size());
  int last = 0;
  for (const NodeId node : changed) {
    first = std::min(first, placed.position_of(node));
    last = std::max(last, placed.position_of(node));
  }
  candidates.clear();
  for (int k = first; k >= std::max(0, first - options_.farthest); --k) candidates.push_back(k);
  const std::size_t before = candidates.size();
  const int end = static_cast<int>(order.size());
  for (int k = last; k < std::min(end, last + options_.farthest + 1); ++k) candidates.push_back(k);
  const std::span<const int> unrelated = narrowness.count(placed, candidates);

  // Backward the bound is where the extension stopped, and belongs to the interval.
  const int begin = std::max(0, first - extension(options_, unrelated.first(before)));
  const int stop = std::min(end, last + extension(options_, unrelated.subspan(before)));
  Interval interval{static_cast<std::size_t>(begin), static_cast<std::size_t>(stop)};
  stretches.improve(placed, interval.begin, interval.end);
  workspace_->lower_peak(options_.peak_windows, static_cast<std::size_t>(options_.window),
                         interval);
  const auto from = static_cast<std::ptrdiff_t>(interval.begin);
  std::copy(placed.order.begin() + from,
            placed.order.begin() + static_cast<std::ptrdiff_t>(interval.end), order.begin() + from);
  return interval;
}

}  // namespace magis
