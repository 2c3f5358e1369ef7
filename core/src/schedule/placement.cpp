#include "magis/schedule/placement.h"

#include <algorithm>
#include <numeric>

namespace magis {
namespace {

std::vector<std::size_t> sorted(std::span<const CopyJob> jobs, int CopyJob::*key) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t j) { return jobs[j].*key; });
  return order;
}

// When each store ends, if it is issued right after its producer.
std::vector<int64_t> store_ends(std::span<const int64_t> start, std::span<const CopyJob> jobs) {
  std::vector<int64_t> ends(jobs.size());
  int64_t engine_free = start.front();
  for (const std::size_t j : sorted(jobs, &CopyJob::made)) {
    const int64_t issued = start[static_cast<std::size_t>(jobs[j].made) + 1];
    ends[j] = issued;
    if (jobs[j].store == 0) continue;
    engine_free = std::max(engine_free, issued) + jobs[j].store;
    ends[j] = engine_free;
  }
  return ends;
}

// When each load starts at the latest.
std::vector<int64_t> load_starts(std::span<const int64_t> start, std::span<const CopyJob> jobs) {
  std::vector<int64_t> starts(jobs.size());
  int64_t next = start.back();
  const std::vector<std::size_t> order = sorted(jobs, &CopyJob::use);
  for (auto j = order.rbegin(); j != order.rend(); ++j) {
    next = std::min(next, start[static_cast<std::size_t>(jobs[*j].use)]) - jobs[*j].load;
    starts[*j] = next;
  }
  return starts;
}

}  // namespace

std::vector<CopyPlacement> place_copies(std::span<const int64_t> start,
                                        std::span<const uint8_t> border,
                                        std::span<const CopyJob> jobs) {
  const std::vector<int64_t> ends = store_ends(start, jobs);
  const std::vector<int64_t> starts = load_starts(start, jobs);
  std::vector<CopyPlacement> placements(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const CopyJob& job = jobs[j];
    // Positions that start at the end of the store or later, at the start of the load or earlier.
    auto release = static_cast<int>(std::ranges::lower_bound(start, ends[j]) - start.begin());
    auto load = static_cast<int>(std::ranges::upper_bound(start, starts[j]) - start.begin()) - 1;
    release = std::max(release, job.free_from);
    load = std::min(load, job.use);
    while (release < load && border[static_cast<std::size_t>(release)] == 0) ++release;
    while (release < load && border[static_cast<std::size_t>(load)] == 0) --load;
    placements[j] = {release < load, release, load, ends[j], starts[j]};
  }
  return placements;
}

}  // namespace magis
