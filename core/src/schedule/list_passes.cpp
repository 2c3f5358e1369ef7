#include "schedule/list_passes.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace magis {
namespace {

// Nodes are placed from the front. Live bytes are those after what was placed.
class FromFront {
 public:
  explicit FromFront(const SchedulingProblem& problem)
      : problem_(problem), bytes_(problem), missing_(problem.size(), 0) {
    for (std::size_t n = 0; n < problem.size(); ++n) {
      missing_[NodeId(n)] = static_cast<int>(problem.predecessors[n].size());
    }
  }
  Bytes live() const { return bytes_.live(); }
  bool available(NodeId node) const { return missing_[node] == 0; }
  Bytes change(NodeId node) const { return bytes_.change(node); }
  Bytes during(NodeId node) const { return bytes_.during(node); }

  // Calls visit(node) for whatever may have become available or cheaper.
  template <class Visit>
  void place(NodeId node, Visit&& visit) {
    bytes_.run(node);
    for (const NodeId next : problem_.successors[SchedulingProblem::row(node)]) {
      if (--missing_[next] == 0) visit(next);
    }
    for (const TensorId tensor : problem_.reads[SchedulingProblem::row(node)]) {
      if (bytes_.waiting_readers(tensor) != 1) continue;
      for (const NodeId reader : problem_.readers[static_cast<std::size_t>(tensor.index)]) {
        if (reader != node) visit(reader);
      }
    }
  }

 private:
  const SchedulingProblem& problem_;
  LiveBytesOfOrder bytes_;
  IdMap<NodeId, int> missing_;  // predecessors not yet placed
};

// Nodes are placed from the back. Live bytes are those before what was placed.
class FromBack {
 public:
  explicit FromBack(const SchedulingProblem& problem)
      : problem_(problem), read_later_(problem.bytes.size(), 0), missing_(problem.size(), 0) {
    for (std::size_t n = 0; n < problem.size(); ++n) {
      missing_[NodeId(n)] = static_cast<int>(problem.successors[n].size());
    }
    for (std::size_t t = 0; t < problem.bytes.size(); ++t) {
      if (problem.output[TensorId(t)]) live_ += problem.bytes[TensorId(t)];
    }
  }
  Bytes live() const { return live_; }
  bool available(NodeId node) const { return missing_[node] == 0; }
  Bytes change(NodeId node) const {
    const std::size_t row = SchedulingProblem::row(node);
    Bytes bytes = -problem_.results[row];
    for (const TensorId made : problem_.makes[row]) {
      if (problem_.dies_unread(made)) bytes += problem_.bytes[made];
    }
    for (const TensorId read : problem_.reads[row]) {
      if (!read_later_[read]) bytes += problem_.bytes[read];
    }
    return bytes;
  }
  Bytes during(NodeId node) const {
    const std::size_t row = SchedulingProblem::row(node);
    const Bytes bytes = live_ + change(node) + problem_.results[row] + problem_.scratch[row];
    for (const TensorId tensor : problem_.overwritable[row]) {
      if (!read_later_[tensor]) return bytes - problem_.bytes[tensor];
    }
    return bytes;
  }
  template <class Visit>
  void place(NodeId node, Visit&& visit) {
    const std::size_t row = SchedulingProblem::row(node);
    live_ += change(node);
    for (const NodeId before : problem_.predecessors[row]) {
      if (--missing_[before] == 0) visit(before);
    }
    for (const TensorId tensor : problem_.reads[row]) {
      if (std::exchange(read_later_[tensor], 1) != 0) continue;
      for (const NodeId reader : problem_.readers[static_cast<std::size_t>(tensor.index)]) {
        if (reader != node) visit(reader);
      }
    }
  }

 private:
  const SchedulingProblem& problem_;
  IdMap<TensorId, uint8_t> read_later_;
  IdMap<NodeId, int> missing_;  // successors not yet placed
  Bytes live_ = 0;
};

// Places nodes in the given sequence, but harmless ones as soon as there are any: those that do not
// raise live bytes (in the direction of the pass) and stay within the peak. Some order that is no
// worse than the sequence has them next.
template <class State>
class ListPass {
 public:
  ListPass(const SchedulingProblem& problem, std::vector<NodeId> sequence, Bytes peak)
      : state_(problem),
        sequence_(std::move(sequence)),
        peak_(peak),
        rank_(sequence_.size(), 0),
        placed_(sequence_.size(), 0) {
    for (std::size_t k = 0; k < sequence_.size(); ++k) rank_[sequence_[k]] = static_cast<int>(k);
  }

  std::vector<NodeId> run() {
    for (const NodeId node : sequence_) consider(node);
    for (const NodeId next : sequence_) {
      while (place_harmless()) {
      }
      if (!placed_[next]) place(next);
    }
    return std::move(result_);
  }

 private:
  void consider(NodeId node) {
    if (placed_[node] || !state_.available(node) || state_.change(node) > 0) return;
    if (state_.during(node) <= peak_) {
      harmless_.push(rank_[node]);
    } else {
      too_large_.push({state_.during(node) - state_.live(), rank_[node]});
    }
  }

  bool place_harmless() {
    while (!too_large_.empty() && state_.live() + too_large_.top().first <= peak_) {
      harmless_.push(too_large_.top().second);
      too_large_.pop();
    }
    if (harmless_.empty()) return false;
    const NodeId node = sequence_[static_cast<std::size_t>(harmless_.top())];
    harmless_.pop();
    if (placed_[node]) return true;
    if (state_.during(node) <= peak_) {
      place(node);
    } else {
      consider(node);
    }
    return true;
  }

  void place(NodeId node) {
    placed_[node] = 1;
    result_.push_back(node);
    state_.place(node, [&](NodeId affected) { consider(affected); });
  }

  template <class T>
  using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<T>>;

  State state_;
  std::vector<NodeId> sequence_;
  Bytes peak_;
  IdMap<NodeId, int> rank_;
  IdMap<NodeId, uint8_t> placed_;
  std::vector<NodeId> result_;
  LeastFirst<int> harmless_;                     // ranks
  LeastFirst<std::pair<Bytes, int>> too_large_;  // what they add while they run, and ranks
};

}  // namespace

void hasten(PlacedOrder& placed) {
  const Bytes peak = peak_of(*placed.problem, placed.order);
  ListPass<FromFront> pass(*placed.problem, placed.order, peak);
  placed.assign(*placed.problem, pass.run());
}

void postpone(PlacedOrder& placed) {
  const Bytes peak = peak_of(*placed.problem, placed.order);
  std::vector<NodeId> reversed(placed.order.rbegin(), placed.order.rend());
  ListPass<FromBack> pass(*placed.problem, std::move(reversed), peak);
  std::vector<NodeId> order = pass.run();
  std::ranges::reverse(order);
  placed.assign(*placed.problem, order);
}

}  // namespace magis
