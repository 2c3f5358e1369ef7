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

std::optional<Seconds> MeasuredTimes::find(std::string_view key) const {
  lookups_.fetch_add(1, std::memory_order_relaxed);
  const auto found = seconds_.find(key);
  if (found != seconds_.end()) return found->second;
  misses_.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

std::size_t MeasuredTimes::Hash::operator()(std::string_view text) const {
  return std::hash<std::string_view>()(text);
}

}  // namespace magis
