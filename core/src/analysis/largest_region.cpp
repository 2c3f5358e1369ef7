#include "magis/analysis/largest_region.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analysis/max_flow.h"

namespace magis {
namespace {

// Works on the stretch of the program between the first and the last allowed operator.
class RegionCut {
 public:
  RegionCut(const AxisGraph& axes, const Labelling& labelling, std::span<const OpId> allowed,
            const OpWeights& weights, const std::function<bool()>& stop)
      : axes_(axes), graph_(axes.graph()), labelling_(labelling), weights_(weights), stop_(stop) {
    for (const OpId op : allowed) {
      if (labelling.contains(op)) members_.push_back(op);
    }
    if (members_.empty()) return;
    first_ = members_.front().index;
    places_.assign(static_cast<std::size_t>(members_.back().index - first_ + 1), Place());
    for (const OpId op : members_) place(op).member = true;
  }

  // The heaviest valid set; several pieces perhaps.
  std::vector<OpId> run() {
    if (members_.empty()) return {};
    find_detours();
    find_faults();
    return faults_.empty() && !has_detour_ ? members_ : cut();
  }

 private:
  struct Place {
    bool member = false;
    bool after = false;   // not a member, descends from one
    bool detour = false;  // moreover, a member descends from it
  };
  bool in_stretch(OpId op) const {
    return op.index >= first_ && static_cast<std::size_t>(op.index - first_) < places_.size();
  }
  Place& place(OpId op) { return places_[static_cast<std::size_t>(op.index - first_)]; }

  void find_detours() {
    const OpId end = members_.back();
    for (OpId op(first_); op <= end; ++op.index) {
      if (place(op).member) continue;
      for (const OpId before : graph_.predecessors(op)) {
        if (in_stretch(before) && (place(before).member || place(before).after)) {
          place(op).after = true;
        }
      }
    }
    for (OpId op(end); op.index >= first_; --op.index) {
      if (!place(op).after) continue;
      for (const OpId next : graph_.successors(op)) {
        if (in_stretch(next) && (place(next).member || place(next).detour)) {
          place(op).detour = has_detour_ = true;
        }
      }
    }
  }

  // Reads that may not stand inside, as (producer, consumer).
  void find_faults() {
    for (const OpId op : members_) {
      for (const OperandRead& read : axes_.reads(op)) {
        if (!read.producer.valid() || !in_stretch(read.producer) || !place(read.producer).member) {
          continue;
        }
        if (read_fault(axes_, read, op, labelling_.labels[op], labelling_.labels[read.producer]) !=
            ReadFault::none) {
          faults_.emplace_back(read.producer, op);
        }
      }
    }
  }

  // Two nodes per operator: on the source's side if it lies in the region or after it, and if it
  // lies after it.
  int begun(OpId op) const { return 2 * (op.index - first_); }
  int ended(OpId op) const { return begun(op) + 1; }

  std::vector<OpId> cut() {
    const int source = 2 * static_cast<int>(places_.size());
    const int sink = source + 1;
    FlowNetwork network(sink + 1);
    for (OpId op(first_); op <= members_.back(); ++op.index) {
      const Place& here = place(op);
      if (!here.member && !here.detour) continue;
      network.add_edge(ended(op), begun(op), FlowNetwork::kUnbounded);
      if (here.member) {
        network.add_edge(source, begun(op), weights_[op]);
        network.add_edge(ended(op), sink, weights_[op]);
      } else {
        network.add_edge(begun(op), ended(op), FlowNetwork::kUnbounded);
      }
      for (const OpId next : graph_.successors(op)) {
        if (!in_stretch(next) || (!place(next).member && !place(next).detour)) continue;
        network.add_edge(begun(op), begun(next), FlowNetwork::kUnbounded);
        network.add_edge(ended(op), ended(next), FlowNetwork::kUnbounded);
      }
    }
    for (const auto& [producer, consumer] : faults_) {
      network.add_edge(begun(producer), ended(consumer), FlowNetwork::kUnbounded);
    }
    const std::optional<std::vector<bool>> side = network.source_side(source, sink, stop_);
    std::vector<OpId> chosen;
    if (!side) return chosen;
    for (const OpId op : members_) {
      const auto begun_at = static_cast<std::size_t>(begun(op));
      if ((*side)[begun_at] && !(*side)[static_cast<std::size_t>(ended(op))]) {
        chosen.push_back(op);
      }
    }
    return chosen;
  }

  const AxisGraph& axes_;
  const Graph& graph_;
  const Labelling& labelling_;
  const OpWeights& weights_;
  const std::function<bool()>& stop_;
  std::vector<OpId> members_;
  int32_t first_ = 0;
  std::vector<Place> places_;
  bool has_detour_ = false;
  std::vector<std::pair<OpId, OpId>> faults_;
};

// The weakly connected piece with the largest weight, in program order; the first of several.
std::vector<OpId> heaviest_piece(const Graph& graph, const std::vector<OpId>& operators,
                                 const OpWeights& weights) {
  const auto position = [&](OpId op) {
    const auto at = std::ranges::lower_bound(operators, op);
    return at != operators.end() && *at == op ? static_cast<int>(at - operators.begin()) : -1;
  };
  std::vector<int> piece(operators.size(), -1);
  std::vector<std::size_t> pending;
  int best = -1;
  int64_t best_weight = -1;
  int count = 0;
  for (std::size_t start = 0; start < operators.size(); ++start) {
    if (piece[start] >= 0) continue;
    int64_t weight = 0;
    piece[start] = count;
    pending.assign(1, start);
    const auto reach = [&](OpId op) {
      const int at = position(op);
      if (at < 0 || piece[static_cast<std::size_t>(at)] >= 0) return;
      piece[static_cast<std::size_t>(at)] = count;
      pending.push_back(static_cast<std::size_t>(at));
    };
    while (!pending.empty()) {
      const OpId op = operators[pending.back()];
      pending.pop_back();
      weight += weights[op];
      for (const OpId other : graph.predecessors(op)) reach(other);
      for (const OpId other : graph.successors(op)) reach(other);
    }
    if (weight > best_weight) {
      best = count;
      best_weight = weight;
    }
    ++count;
  }
  std::vector<OpId> chosen;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    if (piece[i] == best) chosen.push_back(operators[i]);
  }
  return chosen;
}

}  // namespace

std::vector<OpId> heaviest_set(const AxisGraph& axes, const Labelling& labelling,
                               std::span<const OpId> allowed, const OpWeights& weights) {
  return RegionCut(axes, labelling, allowed, weights, {}).run();
}

std::optional<FissionRegion> largest_region(const AxisGraph& axes, const Labelling& labelling,
                                            std::span<const OpId> allowed, const OpWeights& weights,
                                            const std::function<bool()>& stop) {
  if (labelling.length <= 1) return std::nullopt;
  const std::vector<OpId> set = RegionCut(axes, labelling, allowed, weights, stop).run();
  if (set.empty()) return std::nullopt;
  FissionRegion region;
  region.operators = heaviest_piece(axes.graph(), set, weights);
  for (const OpId op : region.operators) region.labels.push_back(labelling.labels[op]);
  region.length = region.part = labelling.length;
  return region;
}

std::vector<FissionRegion> largest_regions(const AxisGraph& axes, const Labelling& labelling,
                                           std::span<const OpId> allowed, const OpWeights& weights,
                                           int limit, const std::function<bool()>& stop) {
  std::vector<OpId> left(allowed.begin(), allowed.end());
  std::vector<FissionRegion> regions;
  while (static_cast<int>(regions.size()) < limit) {
    auto region = largest_region(axes, labelling, left, weights, stop);
    if (!region) break;
    std::vector<OpId> rest;
    std::ranges::set_difference(left, region->operators, std::back_inserter(rest));
    left = std::move(rest);
    regions.push_back(*std::move(region));
  }
  return regions;
}

}  // namespace magis
