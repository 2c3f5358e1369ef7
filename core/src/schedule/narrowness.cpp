#include "schedule/narrowness.h"

#include <algorithm>

#include "magis/base/error.h"

namespace magis {

int Narrowness::BitCounters::number(std::size_t bit) const {
  int sum = 0;
  for (std::size_t d = 0; d < digits_.size(); ++d) {
    sum += static_cast<int>(digits_[d] >> bit & 1) << d;
  }
  return sum;
}

std::span<const int> Narrowness::count(const PlacedOrder& placed, std::span<const int> positions) {
  MAGIS_CHECK(positions.size() <= kMostQueries, positions.size() << " nodes at a time");
  if (positions.empty()) return {};
  const SchedulingProblem& problem = *placed.problem;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto [lowest, highest] = std::ranges::minmax(positions);
  related_.clear();
  reached_.resize(placed.order.size());

  std::fill_n(reached_.begin(), highest + 1, 0);
  for (std::size_t q = 0; q < positions.size(); ++q) {
    reached_[at(positions[q])] |= uint64_t{1} << q;
  }
  for (int k = highest; k >= 0; --k) {
    const uint64_t bits = reached_[at(k)];
    if (bits == 0) continue;
    related_.add(bits);
    for (const NodeId before : problem.predecessors[SchedulingProblem::row(placed.order[at(k)])]) {
      reached_[at(placed.position_of(before))] |= bits;
    }
  }

  std::fill(reached_.begin() + lowest, reached_.end(), 0);
  for (std::size_t q = 0; q < positions.size(); ++q) {
    reached_[at(positions[q])] |= uint64_t{1} << q;
  }
  for (std::size_t k = at(lowest); k < placed.order.size(); ++k) {
    const uint64_t bits = reached_[k];
    if (bits == 0) continue;
    related_.add(bits);
    for (const NodeId next : problem.successors[SchedulingProblem::row(placed.order[k])]) {
      reached_[at(placed.position_of(next))] |= bits;
    }
  }

  for (std::size_t q = 0; q < positions.size(); ++q) {
    counts_[q] = static_cast<int>(placed.order.size()) + 1 - related_.number(q);
  }
  return std::span<const int>(counts_).first(positions.size());
}

}  // namespace magis
