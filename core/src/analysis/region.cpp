#include "magis/analysis/region.h"

#include <algorithm>

#include "magis/analysis/axis_graph.h"

namespace magis {
namespace {

using Fault = std::optional<std::string>;

// One region, its children apart.
class Validity {
 public:
  // `units`: how many the region's axis has in the unsplit graph (its length, or that of the
  // outermost region around it on the same axis).
  Validity(const AxisGraph& axes, const FissionRegion& region, int64_t units)
      : axes_(axes),
        graph_(axes.graph()),
        region_(region),
        units_(units),
        labels_(graph_.op_count()) {}

  Fault check() {
    if (auto fault = check_list()) return fault;
    if (auto fault = check_part()) return fault;
    for (std::size_t i = 0; i < region_.operators.size(); ++i) {
      if (auto fault = check_label(region_.operators[i], region_.labels[i])) return fault;
    }
    for (const OpId op : region_.operators) {
      for (const OperandRead& read : axes_.reads(op)) {
        if (auto fault = check_read(op, read)) return fault;
      }
    }
    if (auto fault = check_convex()) return fault;
    return check_connected();
  }

 private:
  bool inside(OpId op) const { return labels_[op].valid(); }

  Fault check_list() {
    const auto& operators = region_.operators;
    if (operators.empty()) return "a region needs at least one operator";
    if (operators.size() != region_.labels.size()) {
      return "a region of " + std::to_string(operators.size()) + " operators has " +
             std::to_string(region_.labels.size()) + " labels";
    }
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const OpId op = operators[i];
      if (!op.valid() || static_cast<std::size_t>(op.index) >= graph_.op_count() ||
          (i > 0 && op <= operators[i - 1])) {
        return "the operators of a region are not in program order";
      }
      labels_[op] = region_.labels[i];
    }
    return std::nullopt;
  }

  Fault check_part() const {
    if (region_.length <= 1) {
      return "an axis of length " + std::to_string(region_.length) + " cannot be split";
    }
    if (region_.part >= 1 && region_.part <= region_.length) return std::nullopt;
    return "a part of " + std::to_string(region_.part) + " is not between 1 and the axis length " +
           std::to_string(region_.length);
  }

  Fault check_label(OpId op, Label label) const {
    const Purity purity = graph_.op(op).info->purity;
    const AxisSignature* signature = axes_.signature(op);
    const std::string name = describe(graph_, op);
    if (purity == Purity::random) return name + " draws random numbers: it cannot be split";
    if (purity == Purity::mutating) return name + " writes to an input: it cannot be split";
    if (signature == nullptr) return name + " is not known to fission: it cannot be split";
    if (!label.valid() || label.axis >= static_cast<int>(signature->axes.size())) {
      return name + " has no axis " + std::to_string(label.axis);
    }
    const Axis& axis = signature->axes[static_cast<std::size_t>(label.axis)];
    if (!axis.splittable) {
      return name + " needs its axis of length " + std::to_string(axis.length) + " whole";
    }
    if (axes_.length_along(op, label) == units_) return std::nullopt;
    return name + " cannot walk its axis of length " + std::to_string(axis.length) + " in " +
           std::to_string(units_) + " steps of " + std::to_string(label.step);
  }

  Fault check_read(OpId op, const OperandRead& read) const {
    if (!read.producer.valid() || !inside(read.producer)) return std::nullopt;
    const ReadFault fault = read_fault(axes_, read, op, labels_[op], labels_[read.producer]);
    const std::string consumer = describe(graph_, op);
    const std::string producer = describe(graph_, read.producer);
    switch (fault) {
      case ReadFault::none:
        return std::nullopt;
      case ReadFault::reduced:
        return consumer + " reads " + producer +
               ", which is complete only after the last part: it cannot be in the same region";
      case ReadFault::whole:
        return consumer + " reads all of " + producer +
               ", which the region slices: it cannot be in the same region";
      case ReadFault::crossed:
        break;
    }
    return consumer + " and " + producer + " walk different axes of " + "%" +
           graph_.value(graph_.tensor(read.tensor).value).name +
           ": they cannot be in the same region";
  }

  // Sweeps the program from the first operator to the last: what lies outside and descends from the
  // region must not be read inside.
  Fault check_convex() const {
    IdMap<OpId, OpId> exit(graph_.op_count());  // the first operator outside on the way
    for (OpId op = region_.operators.front(); op <= region_.operators.back(); ++op.index) {
      for (const OpId before : graph_.predecessors(op)) {
        if (inside(op) && exit[before].valid()) {
          return "the region would leave through " + describe(graph_, exit[before]) +
                 " and re-enter at " + describe(graph_, op);
        }
        if (!inside(op) && !exit[op].valid()) exit[op] = inside(before) ? op : exit[before];
      }
    }
    return std::nullopt;
  }

  Fault check_connected() const {
    IdMap<OpId, bool> reached(graph_.op_count(), false);
    std::vector<OpId> pending{region_.operators.front()};
    reached[pending.front()] = true;
    const auto reach = [&](OpId op) {
      if (!inside(op) || reached[op]) return;
      reached[op] = true;
      pending.push_back(op);
    };
    while (!pending.empty()) {
      const OpId op = pending.back();
      pending.pop_back();
      for (const OpId other : graph_.predecessors(op)) reach(other);
      for (const OpId other : graph_.successors(op)) reach(other);
    }
    for (const OpId op : region_.operators) {
      if (!reached[op]) {
        return "the region falls apart: nothing in it connects " +
               describe(graph_, region_.operators.front()) + " and " + describe(graph_, op);
      }
    }
    return std::nullopt;
  }

  const AxisGraph& axes_;
  const Graph& graph_;
  const FissionRegion& region_;
  int64_t units_;
  IdMap<OpId, Label> labels_;
};

// Regions side by side: disjoint, and the graph in which each is one node has no cycle.
Fault check_siblings(const Graph& graph, std::span<const FissionRegion> regions) {
  if (regions.size() < 2) return std::nullopt;
  // Node of an operator: its region, or one of its own after all regions.
  IdMap<OpId, int> node(graph.op_count(), -1);
  for (std::size_t r = 0; r < regions.size(); ++r) {
    for (const OpId op : regions[r].operators) {
      if (node[op] >= 0) return describe(graph, op) + " is in two regions side by side";
      node[op] = static_cast<int>(r);
    }
  }
  int count = static_cast<int>(regions.size());
  for (int& n : node) {
    if (n < 0) n = count++;
  }
  std::vector<int> waiting(static_cast<std::size_t>(count), 0);
  std::vector<std::vector<int>> after(static_cast<std::size_t>(count));
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const int from = node[OpId(o)];
    for (const OpId next : graph.successors(OpId(o))) {
      if (node[next] == from) continue;
      after[static_cast<std::size_t>(from)].push_back(node[next]);
      ++waiting[static_cast<std::size_t>(node[next])];
    }
  }
  std::vector<int> ready;
  for (int n = 0; n < count; ++n) {
    if (waiting[static_cast<std::size_t>(n)] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    const int n = ready.back();
    ready.pop_back();
    for (const int next : after[static_cast<std::size_t>(n)]) {
      if (--waiting[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
  }
  std::vector<std::string> stuck;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    if (waiting[r] > 0) stuck.push_back(describe(graph, regions[r].operators.front()));
  }
  if (stuck.empty()) return std::nullopt;
  return "regions wait for each other: no order runs each as a whole; they begin with " + stuck[0] +
         " and " + stuck.back();
}

// How many units of `child` make one of `parent` where it splits the parent's parts further; 0 if
// it splits another axis. A fault if its operators do not agree.
Fault compare_labels(const Graph& graph, const FissionRegion& parent, const FissionRegion& child,
                     int64_t& ratio) {
  ratio = 0;
  for (std::size_t i = 0; i < child.operators.size() && i < child.labels.size(); ++i) {
    const OpId op = child.operators[i];
    const auto at = std::ranges::lower_bound(parent.operators, op);
    if (at == parent.operators.end() || *at != op) {
      return describe(graph, op) + " is in a child of the region but not in the region";
    }
    const Label outer = parent.labels[static_cast<std::size_t>(at - parent.operators.begin())];
    const Label inner = child.labels[i];
    const bool same_axis = outer.axis == inner.axis;
    const bool fits = !same_axis || (inner.step > 0 && outer.step % inner.step == 0);
    const int64_t here = same_axis && fits ? outer.step / inner.step : 0;
    if (!fits || (i > 0 && here != ratio)) {
      return describe(graph, op) +
             " is split along one axis by a region and its child, in other "
             "steps or unlike the child's other operators";
    }
    ratio = here;
  }
  return std::nullopt;
}

// A region around another one, and how many units its axis has in the unsplit graph.
struct Surrounding {
  const FissionRegion* region;
  int64_t units;
};

Fault check_tree(const AxisGraph& axes, const FissionRegion& region,
                 std::vector<Surrounding>& around) {
  int64_t units = region.length;
  bool nearest = true;  // the innermost surrounding region on the same axis gives the length
  for (auto outer = around.rbegin(); outer != around.rend(); ++outer) {
    int64_t ratio = 0;
    if (auto fault = compare_labels(axes.graph(), *outer->region, region, ratio)) return fault;
    if (ratio == 0) continue;
    const int64_t length = ratio * outer->region->part;
    if (nearest && region.length != length) {
      return "the child region at " + describe(axes.graph(), region.operators.front()) +
             " splits a part of " + std::to_string(length) + " but says that its length is " +
             std::to_string(region.length);
    }
    nearest = false;
    units = ratio * outer->units;
  }
  if (auto fault = Validity(axes, region, units).check()) return fault;
  around.push_back({&region, units});
  for (const FissionRegion& child : region.children) {
    if (auto fault = check_tree(axes, child, around)) return fault;
  }
  around.pop_back();
  return check_siblings(axes.graph(), region.children);
}

void print(const Graph& graph, const FissionRegion& region, const std::string& indent,
           std::string& text) {
  text += indent + "fission part " + std::to_string(region.part) + " of " +
          std::to_string(region.length) + " {\n";
  for (std::size_t i = 0; i < region.operators.size(); ++i) {
    text += indent + "  " + "%" + graph.name(region.operators[i]) + " axis " +
            std::to_string(region.labels[i].axis);
    if (region.labels[i].step != 1) text += " step " + std::to_string(region.labels[i].step);
    text += "\n";
  }
  for (const FissionRegion& child : region.children) print(graph, child, indent + "  ", text);
  text += indent + "}\n";
}

}  // namespace

std::optional<std::string> why_invalid(const AxisGraph& axes, const FissionRegion& region) {
  std::vector<Surrounding> around;
  return check_tree(axes, region, around);
}

std::optional<std::string> why_invalid(const AxisGraph& axes,
                                       std::span<const FissionRegion> regions) {
  for (const FissionRegion& region : regions) {
    if (auto fault = why_invalid(axes, region)) return fault;
  }
  return check_siblings(axes.graph(), regions);
}

std::string to_text(const Graph& graph, const FissionRegion& region) {
  std::string text;
  print(graph, region, "", text);
  return text;
}

}  // namespace magis
