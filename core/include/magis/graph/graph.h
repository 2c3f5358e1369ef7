// The training step as an immutable graph of kernels.
//
//   values   inputs, operator results, views
//   tensors  the values that own storage (inputs and results); every view leads to one
//   edges    one per (tensor, consumer), in the order in which the consumer first names it: CSR
//   over operators
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "magis/base/id.h"
#include "magis/graph/op_table.h"
#include "magis/graph/type.h"

namespace magis {

struct Symbol {  // torch.float32, torch.strided, torch.channels_last
  std::string word;
  bool operator==(const Symbol&) const = default;
};
struct Device {  // device("cpu")
  std::string name;
  bool operator==(const Device&) const = default;
};
struct None {
  bool operator==(const None&) const = default;
};
// A length that follows the part: `coefficient` times the units that the current iterations of
// `loops` walk. Where an integer is read, it counts as `value`, its value in full parts.
struct PartLength {
  int64_t coefficient = 1;
  std::vector<LoopId> loops;  // outer before inner; the slice that a magis.part takes is the last's
  int64_t value = 0;
  bool operator==(const PartLength&) const = default;
};
struct Arg;
using ArgList = std::vector<Arg>;
struct Arg {
  std::variant<None, ValueId, int64_t, double, bool, std::string, Symbol, Device, ArgList,
               PartLength>
      value;
  bool operator==(const Arg&) const = default;
};
// The integer that `arg` is, a part length counted for full parts.
std::optional<int64_t> integer_value(const Arg& arg);
using KeywordArgs = std::vector<std::pair<std::string, Arg>>;

enum class InputKind : uint8_t { param, buffer, batch, constant, state, grad, scalar };
enum class OutputKind : uint8_t { loss, aux, grad, buffer, param, state };
std::string_view to_text(InputKind kind);
std::string_view to_text(OutputKind kind);

struct Input {
  InputKind kind;
  std::string path;  // parameter name, pytree path of the batch, or a constant's data
  ValueId value;
};
struct Output {
  OutputKind kind;
  std::string path;
  ValueId value;
};
struct Site {
  int number;          // as written in the text
  std::string module;  // "bert.encoder.layer.0"
  std::string source;  // "modeling_bert.py:110"
};

// How an operator or a view is spelled: shared by both.
struct Call {
  const OpInfo* info = nullptr;
  ArgList args = {};
  KeywordArgs kwargs = {};
};

struct Operator : Call {
  std::vector<ValueId> results;  // one per result, undefined ones included
  SiteId site;                   // invalid if unknown
  bool backward = false;
  Bytes scratch = 0;  // measured workspace; 0: unknown or none (see OpInfo::scratch)
};

// An enabled fission region (ARCHITECTURE.md, "Fission"): the operators between `begin` and `end`
// run once for every part of an axis.
struct Loop {
  std::string name;
  LoopId parent;      // the loop around it; invalid: none
  int64_t part = 1;   // units of an iteration; the last may have fewer
  PartLength length;  // of the axis, in units; without loops: fixed
  OpId begin, end;

  // Iterations, and what the last one walks, in a full part of the surrounding loops.
  int64_t iterations() const { return (length.value + part - 1) / part; }
  int64_t last_part() const { return length.value - (iterations() - 1) * part; }
  // Every iteration walks `part` units.
  bool is_even() const { return length.loops.empty() && length.value % part == 0; }
};

enum class ValueKind : uint8_t { input, result, view };
struct Value {
  std::string name;
  Type type;
  ValueKind kind = ValueKind::result;
  TensorId tensor =
      {};  // the tensor whose storage it reads (invalid for scalars and undefined results)
  OpId producer = {};  // for results
  int view = -1;       // index into Graph::views(), for views
  ValueId base = {};   // for views: the value it is a view of
};
struct Tensor {
  ValueId value;  // the value that owns the storage
  Bytes bytes = 0;
  OpId producer = {};  // invalid for inputs
  bool is_input = false;
  bool is_output = false;  // some output reads it: it lives to the end
};

class Graph {
 public:
  // In program order: every operator after the producers of what it reads.
  std::span<const Operator> operators() const { return operators_; }
  const Operator& op(OpId id) const { return operators_[static_cast<std::size_t>(id.index)]; }
  std::size_t op_count() const { return operators_.size(); }
  // What text calls an operator: the name of its first result.
  const std::string& name(OpId id) const { return values_[op(id).results.front()].name; }
  const IdMap<ValueId, Value>& values() const { return values_; }
  const Value& value(ValueId id) const { return values_[id]; }
  const IdMap<TensorId, Tensor>& tensors() const { return tensors_; }
  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  const Call& view(const Value& v) const { return views_[static_cast<std::size_t>(v.view)]; }
  std::span<const Input> inputs() const { return inputs_; }
  std::span<const Output> outputs() const { return outputs_; }
  const IdMap<SiteId, Site>& sites() const { return sites_; }
  std::string_view device() const { return device_; }
  std::span<const std::pair<std::string, std::string>> meta() const { return meta_; }

  // Distinct tensors that `op` reads, through views or not; edge ids are contiguous per operator.
  std::span<const TensorId> reads(OpId op) const { return reads_[index(op)]; }
  EdgeId first_edge(OpId op) const { return EdgeId(reads_.first(index(op))); }
  std::size_t edge_count() const { return reads_.items().size(); }
  TensorId edge_tensor(EdgeId e) const { return reads_.items()[index(e)]; }
  OpId edge_op(EdgeId e) const { return edge_op_[index(e)]; }
  // Edges that read `tensor`, in program order of their consumers.
  std::span<const EdgeId> uses(TensorId tensor) const { return uses_[index(tensor)]; }
  // Tensors that `op` makes (undefined results have none), in result order.
  std::span<const TensorId> makes(OpId op) const { return makes_[index(op)]; }
  // Operators that must run before `op`: producers of what it reads, the previous random or opaque
  // operator; for mutating operators every earlier reader of what they write; for other readers of
  // a written input the last operator before them that writes to it; for backward operators that
  // write to an input what makes the loss. Sorted, distinct.
  std::span<const OpId> predecessors(OpId op) const { return predecessors_[index(op)]; }
  std::span<const OpId> successors(OpId op) const { return successors_[index(op)]; }
  // Mutating operators that write to an input after `op` has read it, the first for each input:
  // when `op` runs again, it must be before them. Sorted, distinct.
  std::span<const OpId> overwriters(OpId op) const { return overwriters_[index(op)]; }
  // Edge of the operand that `op` may overwrite with its first result, by type and layout alone,
  // best first; whether the operand dies there is the schedule's business. Empty for most
  // operators.
  struct InPlaceChoice {
    EdgeId edge;
    int argument;  // position in args
    bool operator==(const InPlaceChoice&) const = default;
  };
  std::span<const InPlaceChoice> in_place_choices(OpId op) const { return in_place_[index(op)]; }
  const IdMap<LoopId, Loop>& loops() const { return loops_; }
  const Loop& loop(LoopId id) const { return loops_[id]; }
  // The innermost loop whose body `op` belongs to; invalid: none. A loop's begin and end belong to
  // the loop around it.
  LoopId loop_of(OpId op) const { return loop_of_[op]; }
  // The loop whose begin or end `op` is; invalid for other operators.
  LoopId bounded_loop(OpId op) const { return bounded_loop_[op]; }
  // Bytes of all inputs' storages.
  Bytes persistent_bytes() const { return persistent_bytes_; }

 private:
  friend class GraphBuilder;
  template <class I>
  static std::size_t index(I id) {
    return static_cast<std::size_t>(id.index);
  }

  std::string device_ = "cpu";
  std::vector<std::pair<std::string, std::string>> meta_;
  IdMap<SiteId, Site> sites_;
  std::vector<Operator> operators_;
  std::vector<Call> views_;
  IdMap<ValueId, Value> values_;
  IdMap<TensorId, Tensor> tensors_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  Rows<TensorId> reads_;  // its items are the edges
  std::vector<OpId> edge_op_;
  Rows<EdgeId> uses_;
  Rows<TensorId> makes_;
  Rows<OpId> predecessors_;
  Rows<OpId> successors_;
  Rows<OpId> overwriters_;
  Rows<InPlaceChoice> in_place_;
  IdMap<LoopId, Loop> loops_;
  IdMap<OpId, LoopId> loop_of_;
  IdMap<OpId, LoopId> bounded_loop_;
  Bytes persistent_bytes_ = 0;
};

}  // namespace magis
