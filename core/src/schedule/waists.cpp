#include "schedule/waists.h"

#include <algorithm>

namespace magis {
namespace {

class WaistCutter {
 public:
  WaistCutter(PlacedOrder& placed, std::size_t begin, std::size_t end)
      : placed_(placed),
        problem_(*placed.problem),
        begin_(static_cast<int>(begin)),
        end_(static_cast<int>(end)),
        host_(end - begin, -1) {}

  std::vector<std::size_t> cut() {
    find_leaves();
    attach_leaves();
    return find_waists();
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  NodeId node(int position) const { return placed_.order[at(position)]; }
  std::size_t row(int position) const { return SchedulingProblem::row(node(position)); }
  bool inside(NodeId other) const {
    const int position = placed_.position_of(other);
    return position >= begin_ && position < end_;
  }

  // Bytes of what dies with the node in every order of the stretch in which it follows `host`.
  Bytes certainly_freed(int position, NodeId host) const {
    Bytes freed = 0;
    for (const TensorId tensor : problem_.reads[row(position)]) {
      const auto readers = problem_.readers[at(tensor.index)];
      const bool dies = std::ranges::all_of(readers, [&](NodeId reader) {
        return reader == node(position) || reader == host || placed_.position_of(reader) < begin_;
      });
      if (dies) freed += problem_.bytes[tensor];
    }
    return freed;
  }
  Bytes kept_results(int position) const {
    Bytes bytes = problem_.results[row(position)];
    for (const TensorId made : problem_.makes[row(position)]) {
      if (problem_.dies_unread(made)) bytes -= problem_.bytes[made];
    }
    return bytes;
  }
  Bytes adds(int position) const {
    return problem_.results[row(position)] + problem_.scratch[row(position)];
  }

  // The one node of the stretch that it waits for, if it is a leaf that frees what it makes and
  // that runs right after that node with no more than the node did.
  int host_of(int position) const {
    const auto after = problem_.successors[row(position)];
    if (std::ranges::any_of(after, [&](NodeId s) { return inside(s); })) return -1;
    int host = -1;
    for (const NodeId before : problem_.predecessors[row(position)]) {
      if (!inside(before)) continue;
      if (host >= 0) return -1;
      host = placed_.position_of(before);
    }
    if (host < 0 || kept_results(position) > certainly_freed(position, node(host))) return -1;
    Bytes saved = 0;  // by the host's running in place, at most
    for (const TensorId tensor : problem_.overwritable[row(host)]) {
      saved = std::max(saved, problem_.bytes[tensor]);
    }
    const Bytes left = kept_results(host) - certainly_freed(host, node(host));
    return left + adds(position) <= adds(host) - saved ? host : -1;
  }

  void find_leaves() {
    for (int k = begin_; k < end_; ++k) host_[at(k - begin_)] = host_of(k);
  }

  void attach_leaves() {
    std::vector<NodeId> moved;
    std::vector<char> leaf;
    std::vector<std::vector<NodeId>> guests(host_.size());
    for (int k = begin_; k < end_; ++k) {
      if (host_[at(k - begin_)] >= 0) guests[at(host_[at(k - begin_)] - begin_)].push_back(node(k));
    }
    for (int k = begin_; k < end_; ++k) {
      if (host_[at(k - begin_)] >= 0) continue;
      moved.push_back(node(k));
      leaf.push_back(0);
      for (const NodeId guest : guests[at(k - begin_)]) {
        moved.push_back(guest);
        leaf.push_back(1);
      }
    }
    std::ranges::copy(moved, placed_.order.begin() + begin_);
    placed_.place(at(begin_), at(end_));
    leaf_ = std::move(leaf);
  }

  // A node is a waist if every earlier one has a successor no later than it, and every later one a
  // predecessor no earlier than it: following those leads to it. Leaves take no part.
  std::vector<std::size_t> find_waists() const {
    const std::size_t size = host_.size();
    std::vector<int> earliest_after(size, -1);   // largest first successor of the earlier nodes
    std::vector<int> latest_before(size, end_);  // least last predecessor of the later nodes
    int reach = begin_;
    for (int k = begin_; k < end_; ++k) {
      earliest_after[at(k - begin_)] = reach;
      if (leaf_[at(k - begin_)]) continue;
      int first = end_;
      for (const NodeId s : problem_.successors[row(k)]) {
        const int position = placed_.position_of(s);
        if (position < end_ && !leaf_[at(position - begin_)]) first = std::min(first, position);
      }
      reach = std::max(reach, first);
    }
    reach = end_;
    for (int k = end_ - 1; k >= begin_; --k) {
      latest_before[at(k - begin_)] = reach;
      if (leaf_[at(k - begin_)]) continue;
      int last = -1;
      for (const NodeId p : problem_.predecessors[row(k)]) {
        if (placed_.position_of(p) >= begin_) last = std::max(last, placed_.position_of(p));
      }
      reach = std::min(reach, last);
    }
    std::vector<std::size_t> ends;
    for (int k = begin_; k + 1 < end_; ++k) {
      if (leaf_[at(k - begin_)]) continue;
      if (earliest_after[at(k - begin_)] <= k && latest_before[at(k - begin_)] >= k) {
        ends.push_back(at(k + 1));
      }
    }
    ends.push_back(at(end_));
    return ends;
  }

  PlacedOrder& placed_;
  const SchedulingProblem& problem_;
  int begin_;
  int end_;
  std::vector<int> host_;   // by place in the stretch, of leaves
  std::vector<char> leaf_;  // by place, once leaves were moved
};

}  // namespace

std::vector<std::size_t> cut_at_waists(PlacedOrder& placed, std::size_t begin, std::size_t end) {
  return WaistCutter(placed, begin, end).cut();
}

}  // namespace magis
