// Growing labellings along the axis graph.
#include <algorithm>
#include <string>
#include <utility>

#include "magis/analysis/axis_graph.h"

namespace magis {
namespace {

std::optional<Label> along(const AxisLink& link, bool to_consumer, Label label) {
  const int from_axis = to_consumer ? link.producer_axis : link.consumer_axis;
  const int64_t from_step = to_consumer ? link.producer_step : link.consumer_step;
  if (label.axis != from_axis || label.step % from_step != 0) return std::nullopt;
  const int64_t count = label.step / from_step;
  return to_consumer ? Label{link.consumer_axis, count * link.consumer_step}
                     : Label{link.producer_axis, count * link.producer_step};
}

// One breadth-first growth per round; what each round finds in conflict is banned from the next.
class Growth {
 public:
  Growth(const AxisGraph& axes, std::span<const Seed> seeds, int64_t length)
      : axes_(axes), seeds_(seeds), length_(length), banned_(axes.graph().op_count()) {}

  Labelling run() {
    do {
      grow_once();
    } while (ban_conflicts());
    Labelling result;
    result.length = length_;
    result.operators = order_;
    std::ranges::sort(result.operators);
    result.labels = std::move(labels_);
    find_obstacles(result);
    return result;
  }

 private:
  struct Disagreement {  // a link between two labelled operators that do not continue each other
    OpId op;             // the one labelled later; invalid: no disagreement
    OpId neighbour;      // invalid if another seed says so
    int axis = -1;       // of op, as labelled
    int other = -1;  // of op, as the link says; `axis` again if the link leads back to the seeds
  };

  bool is_banned(OpId op) const { return banned_[op].op.valid(); }

  void visit(OpId op, Label label, OpId from) {
    if (is_banned(op)) return;
    if (!labels_[op].valid()) {
      if (axes_.length_along(op, label) != length_) return;
      labels_[op] = label;
      rank_[op] = static_cast<int>(order_.size());
      parent_[op] = from;
      order_.push_back(op);
    } else if (labels_[op] != label) {
      disagree(op, label, from);
    }
  }

  void disagree(OpId op, Label label, OpId from) {
    if (!from.valid() || rank_[op] > rank_[from]) {
      disagreements_.push_back({op, from, labels_[op].axis, label.axis});
    } else {
      // The link leads back towards the seeds: the nearer operator keeps its label.
      disagreements_.push_back({from, op, labels_[from].axis, labels_[from].axis});
    }
  }

  void grow_once() {
    const std::size_t count = axes_.graph().op_count();
    labels_ = IdMap<OpId, Label>(count);
    rank_ = IdMap<OpId, int>(count, -1);
    parent_ = IdMap<OpId, OpId>(count);
    order_.clear();
    disagreements_.clear();
    for (const Seed& seed : seeds_) visit(seed.op, seed.label, OpId());
    for (std::size_t next = 0; next < order_.size(); ++next) {
      const OpId op = order_[next];
      for (const AxisLink& link : axes_.links_in(op)) {
        if (!link.producer.valid()) continue;
        if (const auto label = along(link, false, labels_[op])) visit(link.producer, *label, op);
      }
      for (const int32_t l : axes_.links_out(op)) {
        const AxisLink& link = axes_.link(l);
        if (const auto label = along(link, true, labels_[op])) visit(link.consumer, *label, op);
      }
    }
  }

  // A disagreement counts unless one of its operators got its label through a conflict: then it
  // may vanish with it.
  bool ban_conflicts() {
    std::ranges::stable_sort(disagreements_, {}, [&](const auto& d) { return rank_[d.op]; });
    IdMap<OpId, bool> doubtful(axes_.graph().op_count(), false);
    auto next = disagreements_.begin();
    bool found = false;
    for (const OpId op : order_) {
      doubtful[op] = parent_[op].valid() && doubtful[parent_[op]];
      for (; next != disagreements_.end() && next->op == op; ++next) {
        if (doubtful[op] || (next->neighbour.valid() && doubtful[next->neighbour])) continue;
        banned_[op] = *next;
        doubtful[op] = true;
        found = true;
      }
    }
    return found;
  }

  void find_obstacles(Labelling& result) const {
    IdMap<OpId, bool> seen(axes_.graph().op_count(), false);
    const auto add = [&](OpId op, OpId neighbour, int axis) {
      if (result.contains(op) || seen[op]) return;
      seen[op] = true;
      result.obstacles.push_back(obstacle(op, neighbour, axis));
    };
    for (const OpId op : result.operators) {
      const Label label = result.labels[op];
      for (const AxisLink& link : axes_.links_in(op)) {
        if (link.producer.valid() && link.consumer_axis == label.axis) {
          add(link.producer, op, link.producer_axis);
        }
      }
      for (const int32_t l : axes_.links_out(op)) {
        const AxisLink& link = axes_.link(l);
        if (link.producer_axis == label.axis) add(link.consumer, op, link.consumer_axis);
      }
      for (const TensorId made : axes_.graph().makes(op)) {
        if (!is_sliced(op, made, label)) continue;
        for (const EdgeId use : axes_.graph().uses(made)) {
          add(axes_.graph().edge_op(use), op, -1);
        }
      }
    }
    std::ranges::sort(result.obstacles, {}, &Obstacle::op);
  }

  bool is_sliced(OpId op, TensorId made, Label label) const {
    const auto& results = axes_.graph().op(op).results;
    const auto result = std::ranges::find(results, axes_.graph().tensor(made).value);
    const auto& rows = axes_.signature(op)->dependence;
    return rows[static_cast<std::size_t>(result - results.begin())]
               [static_cast<std::size_t>(label.axis)] == Dependence::sliced;
  }

  Obstacle obstacle(OpId op, OpId neighbour, int axis) const {
    using enum Obstacle::Reason;
    Obstacle found{.op = op, .neighbour = neighbour, .reason = unlinked, .axis = axis};
    const Purity purity = axes_.graph().op(op).info->purity;
    const AxisSignature* signature = axes_.signature(op);
    if (purity == Purity::random) {
      found.reason = random;
    } else if (purity == Purity::mutating) {
      found.reason = mutating;
    } else if (signature == nullptr) {
      found.reason = opaque;
    } else if (is_banned(op)) {
      found.reason = conflict;
      found.axis = banned_[op].axis;
      found.other = banned_[op].other;
      if (banned_[op].neighbour.valid()) found.neighbour = banned_[op].neighbour;
    } else if (axis >= 0 && !signature->axes[static_cast<std::size_t>(axis)].splittable) {
      found.reason = whole_axis;
    }
    return found;
  }

  const AxisGraph& axes_;
  std::span<const Seed> seeds_;
  int64_t length_;
  IdMap<OpId, Disagreement> banned_;
  IdMap<OpId, Label> labels_;
  IdMap<OpId, int> rank_;     // order of labelling
  IdMap<OpId, OpId> parent_;  // where the label came from
  std::vector<OpId> order_;
  std::vector<Disagreement> disagreements_;
};

}  // namespace

Labelling grow(const AxisGraph& axes, std::span<const Seed> seeds) {
  for (const Seed& seed : seeds) {
    if (const auto length = axes.length_along(seed.op, seed.label)) {
      return Growth(axes, seeds, *length).run();
    }
  }
  return {.length = 0,
          .operators = {},
          .labels = IdMap<OpId, Label>(axes.graph().op_count()),
          .obstacles = {}};
}

Labelling grow(const AxisGraph& axes, OpId seed, int axis, int64_t step) {
  const Seed one{.op = seed, .label = {axis, step}};
  return grow(axes, std::span(&one, 1));
}

Labelling grow_from_input(const AxisGraph& axes, TensorId input, int dim) {
  std::vector<Seed> seeds;
  for (const int32_t l : axes.links_of_input(input)) {
    const AxisLink& link = axes.link(l);
    if (link.dim != dim || link.producer_step != 1) continue;
    const Seed seed{.op = link.consumer, .label = {link.consumer_axis, link.consumer_step}};
    if (axes.length_along(seed.op, seed.label)) seeds.push_back(seed);
  }
  return grow(axes, seeds);
}

ReadFault read_fault(const AxisGraph& axes, const OperandRead& read, OpId consumer,
                     Label consumer_label, Label producer_label) {
  const auto operand = static_cast<std::size_t>(read.operand);
  const auto& dims = axes.signature(consumer)->operands[operand];
  const auto walks = [&](const DimAxis& dim) { return dim.axis == consumer_label.axis; };
  const bool sliced = std::ranges::any_of(dims, walks);
  const auto result = static_cast<std::size_t>(read.result);
  const auto axis = static_cast<std::size_t>(producer_label.axis);
  switch (axes.signature(read.producer)->dependence[result][axis]) {
    case Dependence::once:
      return sliced ? ReadFault::crossed : ReadFault::none;
    case Dependence::sliced:
      break;
    default:
      return ReadFault::reduced;
  }
  if (!sliced) return ReadFault::whole;
  for (const AxisLink& link : axes.links_in(consumer)) {
    if (link.operand == read.operand && along(link, true, producer_label) == consumer_label) {
      return ReadFault::none;
    }
  }
  return ReadFault::crossed;
}

std::string describe(const Graph& graph, OpId id) {
  const Operator& op = graph.op(id);
  std::string text = "%" + graph.name(id) + " (" + op.info->name;
  if (op.site.valid()) {
    const Site& site = graph.sites()[op.site];
    if (!site.module.empty()) text += " in " + site.module;
    if (!site.source.empty()) text += " at " + site.source;
  }
  return text + ")";
}

std::string to_text(const AxisGraph& axes, const Obstacle& obstacle) {
  const Graph& graph = axes.graph();
  const auto length = [&](int axis) {
    const auto& all = axes.signature(obstacle.op)->axes;
    return std::to_string(all[static_cast<std::size_t>(axis)].length);
  };
  const std::string op = describe(graph, obstacle.op);
  const std::string neighbour = describe(graph, obstacle.neighbour);
  switch (obstacle.reason) {
    case Obstacle::Reason::opaque:
      return op + " is not known to fission: it is never split";
    case Obstacle::Reason::random:
      return op + " draws random numbers: it is not split";
    case Obstacle::Reason::mutating:
      return op + " writes to an input: it is not split";
    case Obstacle::Reason::whole_axis:
      return op + " needs the whole axis of length " + length(obstacle.axis) + " at once";
    case Obstacle::Reason::conflict:
      if (obstacle.axis == obstacle.other) {
        return op + " and " + neighbour +
               " cannot be split together: one needs all parts of the "
               "other";
      }
      return op + " meets the axis twice: along its axes of lengths " + length(obstacle.axis) +
             " and " + length(obstacle.other);
    case Obstacle::Reason::unlinked:
      break;
  }
  return op + " and " + neighbour + " share no axis";
}

std::string to_text(const AxisGraph& axes, const Labelling& labelling) {
  const Graph& graph = axes.graph();
  std::string text = "length " + std::to_string(labelling.length) + "\n";
  for (const OpId op : labelling.operators) {
    const Label label = labelling.labels[op];
    text += "%" + graph.name(op) + " axis " + std::to_string(label.axis);
    if (label.step != 1) text += " step " + std::to_string(label.step);
    text += "\n";
  }
  return text;
}

}  // namespace magis
