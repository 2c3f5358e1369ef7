#include "search/monitor.h"

#include <limits>

namespace magis {

Monitor::Monitor(const OptimizeOptions& options, Bytes persistent)
    : options_(options), objective_(options.limit, persistent), persistent_(persistent) {}

Seconds Monitor::elapsed() const {
  return std::chrono::duration<Seconds>(std::chrono::steady_clock::now() - start_).count();
}

int64_t Monitor::states_left() const {
  if (options_.state_budget == 0) return std::numeric_limits<int64_t>::max();
  return options_.state_budget - evaluated();
}

void Monitor::set_best(const Cost& best, bool met) {
  const std::scoped_lock lock(mutex_);
  through_.best = best;
  through_.met = met;
  through_.has_best = true;
}

void Monitor::count(int64_t scored, int64_t evaluated) {
  const std::scoped_lock lock(mutex_);
  through_.scored += scored;
  through_.evaluated += evaluated;
}

int64_t Monitor::scored() const {
  const std::scoped_lock lock(mutex_);
  return through_.scored;
}

int64_t Monitor::evaluated() const {
  const std::scoped_lock lock(mutex_);
  return through_.evaluated;
}

void Monitor::begin(std::size_t slots) {
  const std::scoped_lock lock(mutex_);
  running_.assign(slots, {});
}

bool Monitor::report(std::size_t slot, const Progress& progress) {
  {
    const std::scoped_lock lock(mutex_);
    running_[slot] = {
        .scored = progress.states_scored,
        .evaluated = progress.states_evaluated,
        .best = {progress.best_peak - persistent_, to_picoseconds(progress.best_seconds)},
        .met = progress.met,
        .has_best = true};
  }
  tell();
  return !stop_;
}

void Monitor::tell() {
  if (std::this_thread::get_id() != owner_ || !options_.progress || stop_) return;
  Slot sum;
  {
    const std::scoped_lock lock(mutex_);
    sum = through_;
    for (const Slot& slot : running_) {
      sum.scored += slot.scored;
      sum.evaluated += slot.evaluated;
      if (!slot.has_best || (sum.has_best && !objective_.better(slot.best, sum.best))) continue;
      sum.best = slot.best;
      sum.met = slot.met;
      sum.has_best = true;
    }
  }
  if (!sum.has_best) return;
  const bool goes_on = options_.progress({.best_peak = sum.best.peak + persistent_,
                                          .best_seconds = to_seconds(sum.best.time),
                                          .met = sum.met,
                                          .states_scored = sum.scored,
                                          .states_evaluated = sum.evaluated,
                                          .elapsed = elapsed(),
                                          .bound = bound_});
  if (!goes_on) stop_ = true;
}

}  // namespace magis
