// A graph that rewriting edits in place: operators and views alike are terms over values. Copying
// it is how an edit is tried; graph() makes a Graph of what is left.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "magis/graph/graph.h"
#include "magis/transform/rewriting.h"

namespace magis {

class GraphBuilder;

using TermId = Id<struct TermTag>;

struct Term : Operator {  // a view has no site, and one result
  std::size_t place = 0;  // in program order of the graph given; what is new stands where it is for
  bool dead = false;
  bool is_view() const { return info->purity == Purity::view; }
};

class TermGraph {
 public:
  // Requires a graph without loops. Keeps a reference to `graph`, which has to outlive it. Values
  // of the graph keep their ids.
  explicit TermGraph(const Graph& graph);

  std::string_view device() const { return graph_->device(); }
  std::size_t term_count() const { return terms_.size(); }  // dead ones included
  const Term& term(TermId id) const { return terms_[id]; }
  const Type& type(ValueId id) const { return values_[id].type; }
  const std::string& name(ValueId id) const { return values_[id].name; }
  // Invalid for inputs.
  TermId producer(ValueId id) const { return values_[id].producer; }
  // Live, distinct, in the order in which they came to read it.
  std::span<const TermId> readers(ValueId id) const { return values_[id].readers; }
  bool is_output(ValueId id) const { return values_[id].outputs > 0; }
  bool is_unused(ValueId id) const { return readers(id).empty() && !is_output(id); }
  // The value that owns the storage behind it.
  ValueId base(ValueId id) const;
  // Its storage is that of an input of this kind; a view's is its base's.
  std::optional<InputKind> input_kind(ValueId id) const;
  // Its storage is an input's that some operator writes to: when it is read counts.
  bool is_overwritten(ValueId id) const { return values_[base(id)].overwritten; }

  // The value of a term like `call` with one result of type `type`, new unless there is one
  // already. A new one stands for `instead_of`, whose site it has, and is called after it.
  ValueId add(Call call, Type type, TermId instead_of, const std::string& name);
  // The same with several results.
  std::vector<ValueId> add(Call call, std::vector<Type> types, TermId instead_of,
                           const std::vector<std::string>& names);
  // A view of shape [1] of some input: for operands that are named but not looked at. Nothing if no
  // input has that dtype.
  std::optional<ValueId> any_element(DType dtype, TermId instead_of);
  // `to` depends on what `from` makes.
  bool depends(ValueId to, TermId from) const;
  // Whether replace(from, to) would do: the same dtype and shape, and whatever reads `from` can
  // read `to` as it lies in memory.
  bool can_replace(ValueId from, ValueId to) const;
  // What read `from` reads `to`, which gets its name; what is not needed then is dead. Requires
  // can_replace, and that `to` does not depend on `from`.
  void replace(ValueId from, ValueId to);
  // Drops a term that add() made and nobody reads, and what only it read.
  void drop_unused(ValueId value);
  // Terms that were made, or whose operands, readers or results changed, since this was asked last,
  // dead ones included; distinct, in the order of their ids.
  std::vector<TermId> take_changed();

  // From begin_trial() on, what changes is noted down; roll_back() undoes it, commit() keeps it.
  void begin_trial();
  void roll_back();
  void commit();
  // How many terms there were when the trial began, and which of them it has changed.
  std::size_t trial_begin() const { return trial_.term_count; }
  std::vector<TermId> trial_changed() const;

  // The term by itself, in a graph whose inputs are its operands.
  Graph alone(TermId id) const;
  // Operators in an order that keeps to program order as far as operands allow. Throws
  // InternalError if there is a cycle.
  Graph graph() const { return graph({}); }
  // With lines of meta that take the place of those with the same keys.
  Graph graph(const std::vector<std::pair<std::string, std::string>>& meta) const;
  // The same, without a word on the rules that were applied.
  Rewritten rewritten(const std::vector<std::pair<std::string, std::string>>& meta = {}) const;

 private:
  struct Node {  // a value
    std::string name;
    Type type;
    TermId producer = {};
    std::vector<TermId> readers = {};
    int outputs = 0;
    bool overwritten = false;           // an input that some operator writes to
    InputKind kind = InputKind::param;  // of inputs
  };

  ValueId add_value(Node node);
  std::string free_name(const std::string& wanted) const;
  void read_operands(TermId id);
  void forget_operands(TermId id);
  void drop(TermId id);
  std::optional<ValueId> find_like(const Call& call, const Type& type) const;
  bool can_be_returned(ValueId value) const;
  bool is_returned(ValueId value) const;
  bool can_read(TermId reader, ValueId from, const Type& now) const;
  bool reads_as_before(TermId id, OpId op) const;
  void emit(Operator op, GraphBuilder& builder, std::unordered_map<ValueId, ValueId>& now) const;
  void set_type(ValueId id, const Type& type);
  void touch(TermId id) { changed_.push_back(id); }

  // For changes: noted down if a trial is on.
  Term& edit(TermId id);
  Node& edit(ValueId id);

  struct Trial {
    bool on = false;
    std::size_t term_count = 0;
    std::size_t value_count = 0;
    std::size_t changed_count = 0;
    std::unordered_map<TermId, Term> terms = {};
    std::unordered_map<ValueId, Node> values = {};
    std::vector<std::string> names = {};
    std::vector<Output> outputs = {};
  };

  const Graph* graph_;
  std::vector<OpId> op_at_;  // by place: the operator there, or the next one if it is a view
  IdMap<TermId, Term> terms_;
  IdMap<ValueId, Node> values_;
  std::vector<Output> outputs_;
  std::unordered_set<std::string> names_;
  std::vector<TermId> changed_;
  Trial trial_;
};

}  // namespace magis
