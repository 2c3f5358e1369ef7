#include "support/exhaustive_order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

namespace magis::test {
namespace {

// Bytes from sets alone, tensor by tensor: shares nothing with the counting of the schedulers.
class SetBytes {
 public:
  explicit SetBytes(const SchedulingProblem& problem) : problem_(problem) {}

  Bytes live_after(uint64_t done) const {
    Bytes live = 0;
    for (std::size_t t = 0; t < problem_.bytes.size(); ++t) {
      const TensorId tensor(t);
      const NodeId maker = problem_.maker[tensor];
      if (!maker.valid() || (done >> maker.index & 1) == 0) continue;
      if (problem_.output[tensor] || !read_out(tensor, done)) live += problem_.bytes[tensor];
    }
    return live;
  }
  Bytes during(NodeId node, uint64_t done) const {
    const std::size_t row = SchedulingProblem::row(node);
    Bytes live = live_after(done) + problem_.scratch[row];
    for (const TensorId made : problem_.makes[row]) live += problem_.bytes[made];
    const uint64_t then = done | uint64_t{1} << node.index;
    for (const TensorId tensor : problem_.overwritable[row]) {
      if (read_out(tensor, then)) return live - problem_.bytes[tensor];
    }
    return live;
  }

 private:
  bool read_out(TensorId tensor, uint64_t done) const {
    const auto readers = problem_.readers[static_cast<std::size_t>(tensor.index)];
    return std::ranges::all_of(readers,
                               [&](NodeId reader) { return (done >> reader.index & 1) != 0; });
  }

  const SchedulingProblem& problem_;
};

template <class Visit>
void for_each_ready(const SchedulingProblem& problem, uint64_t done, Visit&& visit) {
  for (std::size_t n = 0; n < problem.size(); ++n) {
    if ((done >> n & 1) != 0) continue;
    const auto before = problem.predecessors[n];
    if (std::ranges::all_of(before, [&](NodeId p) { return (done >> p.index & 1) != 0; })) {
      visit(NodeId(n));
    }
  }
}

}  // namespace

std::optional<Bytes> least_peak_by_downsets(const SchedulingProblem& problem, std::size_t most) {
  const SetBytes bytes(problem);
  std::unordered_map<uint64_t, Bytes> best{{0, 0}};
  for (std::size_t length = 0; length < problem.size(); ++length) {
    std::unordered_map<uint64_t, Bytes> longer;
    for (const auto& [done, peak] : best) {
      for_each_ready(problem, done, [&, d = done, p = peak](NodeId node) {
        const Bytes reached = std::max(p, bytes.during(node, d));
        const auto [entry, inserted] = longer.emplace(d | uint64_t{1} << node.index, reached);
        if (!inserted) entry->second = std::min(entry->second, reached);
      });
    }
    if (longer.size() > most) return std::nullopt;
    best = std::move(longer);
  }
  return best.begin()->second;
}

PeakRange peaks_of_all_orders(const SchedulingProblem& problem) {
  const SetBytes bytes(problem);
  PeakRange range{std::numeric_limits<Bytes>::max(), 0};
  const std::function<void(uint64_t, std::size_t, Bytes)> extend =
      [&](uint64_t done, std::size_t length, Bytes peak) {
        if (length == problem.size()) {
          range = {std::min(range.least, peak), std::max(range.most, peak)};
          return;
        }
        for_each_ready(problem, done, [&](NodeId node) {
          extend(done | uint64_t{1} << node.index, length + 1,
                 std::max(peak, bytes.during(node, done)));
        });
      };
  extend(0, 0, 0);
  return range;
}

}  // namespace magis::test
