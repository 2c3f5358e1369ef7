#include "magis/simulate/measured_times.h"

#include <cmath>
#include <utility>

#include "magis/base/error.h"

namespace magis {

void MeasuredTimes::add(std::string key, Seconds seconds) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw UserError("a measured time must be a number of seconds, not " + std::to_string(seconds) +
                    ": " + key);
  }
  seconds_[std::move(key)] = seconds;
}

std::optional<Seconds> MeasuredTimes::counted(std::optional<Seconds> found) const {
  lookups_.fetch_add(1, std::memory_order_relaxed);
  if (!found) misses_.fetch_add(1, std::memory_order_relaxed);
  return found;
}

std::optional<Seconds> MeasuredTimes::find(std::string_view key) const {
  const auto found = seconds_.find(key);
  return counted(found == seconds_.end() ? std::nullopt : std::optional(found->second));
}

std::optional<Seconds> MeasuredTimes::find(const Graph& graph, OpId op) const {
  const uint64_t hash = call_hash(graph, op);
  Known& known = known_[hash % known_.size()];
  {
    const std::scoped_lock lock(known.mutex);
    const auto before = known.seconds.find(hash);
    if (before != known.seconds.end()) return counted(before->second);
  }
  spelled_.fetch_add(1, std::memory_order_relaxed);
  const std::optional<Seconds> found = find(call_key(graph, op));
  const std::scoped_lock lock(known.mutex);
  known.seconds.emplace(hash, found);
  return found;
}

std::size_t MeasuredTimes::Hash::operator()(std::string_view text) const {
  return std::hash<std::string_view>()(text);
}

}  // namespace magis
