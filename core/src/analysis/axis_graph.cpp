#include "magis/analysis/axis_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "magis/graph/builder.h"

namespace magis {
namespace {

// A dimension of an operand, followed down to the tensor that it is a view of: `base_step` elements
// of `dim` of the tensor are `operand_step` elements of the operand's dimension.
struct Traced {
  int dim = -1;
  int64_t base_step = 1;
  int64_t operand_step = 1;
};

// All dimensions of one value at once; -1 where the dimension ends at some view.
std::vector<Traced> trace_views(const Graph& graph, ValueId id) {
  const Value* value = &graph.value(id);
  std::vector<Traced> traced(value->type.shape.size());
  for (std::size_t d = 0; d < traced.size(); ++d) traced[d].dim = static_cast<int>(d);
  for (; value->kind == ValueKind::view; value = &graph.value(value->base)) {
    const std::vector<ViewAxis> shared = view_axes(graph, *value);
    for (Traced& t : traced) {
      if (t.dim < 0) continue;
      const auto same = std::ranges::find(shared, t.dim, &ViewAxis::view_dim);
      if (same == shared.end()) {
        t.dim = -1;
        continue;
      }
      const int64_t common = std::lcm(t.base_step, same->view_step);
      t.operand_step *= common / t.base_step;
      t.base_step = common / same->view_step * same->base_step;
      t.dim = same->base_dim;
    }
  }
  return traced;
}

int result_index(const Graph& graph, OpId producer, ValueId value) {
  const auto& results = graph.op(producer).results;
  return static_cast<int>(std::ranges::find(results, value) - results.begin());
}

class UnionFind {
 public:
  explicit UnionFind(std::size_t n) : parent_(n) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

AxisGraph::AxisGraph(const Graph& graph) : graph_(graph), signatures_(graph.op_count()) {
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    signatures_[OpId(o)] = axis_signature(graph, OpId(o));
  }
  link_operands();
  find_components();
}

void AxisGraph::link_operands() {
  const auto add_links = [&](OpId op, const OperandRead& read) {
    const AxisSignature& own = *signatures_[op];
    const auto& dims = own.operands[static_cast<std::size_t>(read.operand)];
    if (std::ranges::none_of(dims, [](const DimAxis& d) { return d.axis >= 0; })) return;
    const AxisSignature* made = nullptr;
    if (read.producer.valid()) {
      made = signature(read.producer);
      if (made == nullptr) return;
    }
    const std::vector<Traced> traced = trace_views(graph_, read.value);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const Traced& trace = traced[d];
      if (dims[d].axis < 0 || trace.dim < 0) continue;
      DimAxis from{-1, 1};
      if (made != nullptr) {
        from = made->results[static_cast<std::size_t>(read.result)]
                            [static_cast<std::size_t>(trace.dim)];
        if (from.axis < 0) continue;
      }
      // The fewest elements of the view chain's steps that both axes can count.
      const int64_t count = std::lcm(from.step / std::gcd(from.step, trace.base_step),
                                     dims[d].step / std::gcd(dims[d].step, trace.operand_step));
      links_.push_back({.tensor = read.tensor,
                        .dim = trace.dim,
                        .producer = read.producer,
                        .producer_axis = from.axis,
                        .producer_step = count * trace.base_step / from.step,
                        .consumer = op,
                        .operand = read.operand,
                        .consumer_axis = dims[d].axis,
                        .consumer_step = count * trace.operand_step / dims[d].step});
    }
  };
  for (std::size_t o = 0; o < graph_.op_count(); ++o) {
    const OpId op(o);
    int operand = 0;
    for_each_value(graph_.op(op), [&](ValueId value) {
      OperandRead read;
      read.value = value;
      read.tensor = graph_.value(value).tensor;
      read.operand = operand++;
      if (read.tensor.valid()) {
        read.producer = graph_.tensor(read.tensor).producer;
        if (read.producer.valid()) {
          read.result = result_index(graph_, read.producer, graph_.tensor(read.tensor).value);
        }
        if (signatures_[op]) add_links(op, read);
      }
      reads_.push_back(read);
    });
    reads_.end_row();
    links_.end_row();
  }
}

void AxisGraph::find_components() {
  std::vector<int32_t> from_operators, from_inputs;
  for (std::size_t l = 0; l < links_.items().size(); ++l) {
    (links_.items()[l].producer.valid() ? from_operators : from_inputs)
        .push_back(static_cast<int32_t>(l));
  }
  links_out_ = Rows<int32_t>::group(graph_.op_count(), from_operators,
                                    [&](int32_t l) { return index(link(l).producer); });
  links_of_ = Rows<int32_t>::group(graph_.tensors().size(), from_inputs,
                                   [&](int32_t l) { return index(link(l).tensor); });

  first_axis_ = IdMap<OpId, int>(graph_.op_count(), 0);
  int total = 0;
  for (std::size_t o = 0; o < graph_.op_count(); ++o) {
    first_axis_[OpId(o)] = total;
    if (signatures_[OpId(o)]) total += static_cast<int>(signatures_[OpId(o)]->axes.size());
  }
  UnionFind same(static_cast<std::size_t>(total));
  const auto node = [&](OpId op, int axis) {
    return static_cast<std::size_t>(first_axis_[op] + axis);
  };
  for (const int32_t l : from_operators) {
    same.join(node(link(l).producer, link(l).producer_axis),
              node(link(l).consumer, link(l).consumer_axis));
  }
  components_.assign(static_cast<std::size_t>(total), -1);
  for (std::size_t n = 0; n < components_.size(); ++n) {
    int& root = components_[same.find(n)];
    if (root < 0) root = component_count_++;
    components_[n] = root;
  }
}

std::optional<int64_t> AxisGraph::length_along(OpId op, Label label) const {
  const AxisSignature* own = signature(op);
  if (own == nullptr || graph_.op(op).info->purity != Purity::pure) return std::nullopt;
  if (label.axis < 0 || label.axis >= static_cast<int>(own->axes.size()) || label.step < 1) {
    return std::nullopt;
  }
  const Axis& axis = own->axes[static_cast<std::size_t>(label.axis)];
  if (!axis.splittable || axis.length % label.step != 0) return std::nullopt;
  return axis.length / label.step;
}

}  // namespace magis
