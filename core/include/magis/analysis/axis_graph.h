// The axis graph: which axes of which operators are the same axis (the paper's D-Graph, section
// 4.1), and labellings grown along it. Computed once per graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "magis/analysis/region.h"
#include "magis/graph/axes.h"
#include "magis/graph/graph.h"

namespace magis {

// How an operator reads one operand: one per value that for_each_value(call) visits, in its order,
// like the rows of AxisSignature::operands.
struct OperandRead {
  ValueId value;
  TensorId tensor;   // invalid for scalars
  OpId producer;     // of the tensor; invalid for inputs
  int result = -1;   // which result of the producer it is
  int operand = -1;  // position among the operands
};

// A dimension of a tensor that, through all views in between, is an axis of a consumer:
// `producer_step` elements of the producer's axis are `consumer_step` elements of the consumer's,
// and slices of whole such steps correspond. For inputs there is no producer, and `producer_step`
// counts elements of the dimension.
struct AxisLink {
  TensorId tensor;
  int dim = -1;  // of the tensor's own shape
  OpId producer;
  int producer_axis = -1;
  int64_t producer_step = 1;
  OpId consumer;
  int operand = -1;
  int consumer_axis = -1;
  int64_t consumer_step = 1;
};

class AxisGraph {
 public:
  // Keeps a reference to `graph`, which has to outlive it. O(operands * dimensions).
  explicit AxisGraph(const Graph& graph);

  const Graph& graph() const { return graph_; }
  // Null: the operator is opaque to fission.
  const AxisSignature* signature(OpId op) const {
    const auto& signature = signatures_[op];
    return signature ? &*signature : nullptr;
  }
  std::span<const OperandRead> reads(OpId op) const { return reads_[index(op)]; }
  // Links into the operands of `op`, and out of its results; links of inputs by tensor.
  std::span<const AxisLink> links_in(OpId op) const { return links_[index(op)]; }
  std::span<const int32_t> links_out(OpId op) const { return links_out_[index(op)]; }
  std::span<const int32_t> links_of_input(TensorId input) const { return links_of_[index(input)]; }
  const AxisLink& link(int32_t id) const { return links_.items()[static_cast<std::size_t>(id)]; }

  // Connected components of (operator, axis), numbered by their first member in program order.
  // They say what may belong together; what does belong together is a labelling.
  int component(OpId op, int axis) const {
    return components_[static_cast<std::size_t>(first_axis_[op] + axis)];
  }
  int component_count() const { return component_count_; }

  // Whether `label` may split `op`: the operator is pure and has a signature, the axis can be
  // split, and its length is a multiple of the step. Returns the length in units.
  std::optional<int64_t> length_along(OpId op, Label label) const;

 private:
  template <class I>
  static std::size_t index(I id) {
    return static_cast<std::size_t>(id.index);
  }
  void link_operands();
  void find_components();

  const Graph& graph_;
  IdMap<OpId, std::optional<AxisSignature>> signatures_;
  Rows<OperandRead> reads_;  // rows: operators
  Rows<AxisLink> links_;     // rows: consumers
  Rows<int32_t> links_out_;  // rows: producers
  Rows<int32_t> links_of_;   // rows: tensors, filled for inputs
  IdMap<OpId, int> first_axis_;
  std::vector<int> components_;
  int component_count_ = 0;
};

// An operator next to a labelled one that is not labelled itself, and why.
struct Obstacle {
  enum class Reason : uint8_t {
    opaque,      // no axis signature
    random,      // draws from the generator
    mutating,    // writes to an input
    whole_axis,  // needs the axis whole
    conflict,    // the axis reaches it on two of its axes
    unlinked,    // reads the tensor in a way that loses the axis
  };
  OpId op;
  OpId neighbour;  // the labelled operator
  Reason reason = Reason::unlinked;
  int axis = -1;   // of `op`, for whole_axis and conflict
  int other = -1;  // the second axis, for conflict
};

// One iteration axis for each of some operators.
struct Labelling {
  int64_t length = 0;               // of the axis, in units
  std::vector<OpId> operators;      // in program order
  IdMap<OpId, Label> labels;        // invalid for the others
  std::vector<Obstacle> obstacles;  // where it ends, by operator
  bool contains(OpId op) const { return labels[op].valid(); }
};

struct Seed {
  OpId op;
  Label label;
};
// Grows a labelling from the seeds along the links. Where an operator is reached on two axes, the
// label nearest to the seeds stands at one end of the offending read, and the operator at its far
// end is not labelled. Empty if no seed can be split. O(edges) times the (few) rounds that it
// takes to find all conflicts.
Labelling grow(const AxisGraph& axes, std::span<const Seed> seeds);
Labelling grow(const AxisGraph& axes, OpId seed, int axis, int64_t step = 1);
// From every operator that reads dimension `dim` of an input, one unit per element.
Labelling grow_from_input(const AxisGraph& axes, TensorId input, int dim);

// Why the read cannot stand inside a region when `consumer` and the read's producer have these
// labels; none: it continues the region's axis, or is of a result that any part computes whole.
enum class ReadFault : uint8_t {
  none,
  reduced,  // the result is only part of a sum (a maximum, ...) until the last part has run
  whole,    // the consumer reads all of what is sliced
  crossed,  // the consumer's axis walks another dimension, or in other steps
};
ReadFault read_fault(const AxisGraph& axes, const OperandRead& read, OpId consumer,
                     Label consumer_label, Label producer_label);

// "%mm (aten.mm in encoder.layer.0 at model.py:12)", for messages.
std::string describe(const Graph& graph, OpId op);
// One line per operator that stands in the way of `labelling`.
std::string to_text(const AxisGraph& axes, const Obstacle& obstacle);
// "x3 -> 1 step 2": for tests and debugging, one line per operator.
std::string to_text(const AxisGraph& axes, const Labelling& labelling);

}  // namespace magis
