#include "transform/term_graph.h"

#include <algorithm>
#include <utility>

#include "magis/base/error.h"
#include "magis/graph/axes.h"
#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

void substitute(Arg& arg, ValueId from, ValueId to) {
  if (auto* id = std::get_if<ValueId>(&arg.value)) {
    if (*id == from) *id = to;
  } else if (auto* list = std::get_if<ArgList>(&arg.value)) {
    for (Arg& item : *list) substitute(item, from, to);
  }
}

void substitute(Call& call, ValueId from, ValueId to) {
  for (Arg& arg : call.args) substitute(arg, from, to);
  for (auto& [name, arg] : call.kwargs) substitute(arg, from, to);
}

bool same_call(const Call& a, const Call& b) {
  return a.info == b.info && a.args == b.args && a.kwargs == b.kwargs;
}

// Every value that `call` names, once.
std::vector<ValueId> operands(const Call& call) {
  std::vector<ValueId> all;
  for_each_value(call, [&](ValueId id) {
    if (std::ranges::find(all, id) == all.end()) all.push_back(id);
  });
  return all;
}

// Dimensions follow each other in memory alike.
bool in_same_order(const Type& a, const Type& b) {
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (a.shape[i] == 1 || a.shape[j] == 1) continue;
      if ((a.strides[j] <=> a.strides[i]) != (b.strides[j] <=> b.strides[i])) return false;
    }
  }
  return true;
}

// A copy into memory in the order of dimensions, whatever it copies.
bool says_how_it_lies(const Term& term) {
  return term.info == &op_info("aten.clone") && term.kwargs.size() == 1 &&
         term.kwargs.front().second == Arg{Symbol{"contiguous_format"}};
}

}  // namespace

TermGraph::TermGraph(const Graph& graph)
    : graph_(&graph), outputs_(graph.outputs().begin(), graph.outputs().end()) {
  MAGIS_CHECK(graph.loops().empty(), "a graph with loops");
  for (const Value& value : graph.values()) {
    values_.push_back({.name = value.name, .type = value.type});
    names_.insert(value.name);
  }
  for (const Input& input : graph.inputs()) values_[input.value].kind = input.kind;
  // Views stand right before the first operator that follows them among the values.
  OpId next(std::size_t{0});
  const auto add_term = [&](Term term) {
    op_at_.push_back(std::min(next, OpId(graph.op_count() - 1)));
    term.place = terms_.size();
    const TermId id = terms_.push_back(std::move(term));
    for (ValueId result : terms_[id].results) values_[result].producer = id;
    read_operands(id);
    for (int position : terms_[id].info->mutated) {
      for_each_value(terms_[id].args.at(static_cast<std::size_t>(position)),
                     [&](ValueId written) { values_[base(written)].overwritten = true; });
    }
  };
  std::vector<char> added(graph.values().size(), 0);
  const auto add_views = [&](const auto& self, const Call& call) -> void {
    for_each_value(call, [&](ValueId id) {
      const Value& value = graph.value(id);
      if (value.kind != ValueKind::view ||
          std::exchange(added[static_cast<std::size_t>(id.index)], 1))
        return;
      const Call& view = graph.view(value);
      self(self, view);
      Term term;
      static_cast<Call&>(term) = view;
      term.results = {id};
      add_term(std::move(term));
    });
  };
  for (const Operator& op : graph.operators()) {
    add_views(add_views, op);
    Term term;
    static_cast<Operator&>(term) = op;
    add_term(std::move(term));
    ++next.index;
  }
  for (const Output& output : outputs_) {
    Call named;
    named.args.push_back({output.value});
    add_views(add_views, named);
    ++values_[output.value].outputs;
  }
}

std::optional<InputKind> TermGraph::input_kind(ValueId id) const {
  const Node& node = values_[base(id)];
  return node.producer.valid() ? std::nullopt : std::optional(node.kind);
}

ValueId TermGraph::base(ValueId id) const {
  while (producer(id).valid() && term(producer(id)).is_view()) {
    id = std::get<ValueId>(term(producer(id)).args.front().value);
  }
  return id;
}

// ---- making

ValueId TermGraph::add(Call call, Type type, TermId instead_of, const std::string& name) {
  if (const std::optional<ValueId> known = find_like(call, type)) return *known;
  return add(std::move(call), std::vector{std::move(type)}, instead_of, {name}).front();
}

std::vector<ValueId> TermGraph::add(Call call, std::vector<Type> types, TermId instead_of,
                                    const std::vector<std::string>& names) {
  Term made;
  static_cast<Call&>(made) = std::move(call);
  made.place = term(instead_of).place;
  if (!made.is_view()) {
    made.site = term(instead_of).site;
    made.backward = term(instead_of).backward;
    // An estimate, until it is measured: a kernel like the one it stands for.
    if (made.info == term(instead_of).info) made.scratch = term(instead_of).scratch;
  }
  for (std::size_t r = 0; r < types.size(); ++r) {
    made.results.push_back(add_value({.name = free_name(names[r]), .type = std::move(types[r])}));
  }
  const TermId id = terms_.push_back(std::move(made));
  for (ValueId result : terms_[id].results) values_[result].producer = id;
  read_operands(id);
  touch(id);
  return terms_[id].results;
}

std::optional<ValueId> TermGraph::any_element(DType dtype, TermId instead_of) {
  const auto fits = [&](const Input& input) {
    const Node& node = values_[input.value];
    return node.type.defined && node.type.dtype == dtype && !node.overwritten &&
           input.kind != InputKind::scalar && element_count(node.type.shape) > 0;
  };
  const auto found = std::ranges::find_if(graph_->inputs(), fits);
  if (found == graph_->inputs().end()) return std::nullopt;
  ValueId value = found->value;
  const std::string name = this->name(value) + "_element";
  const auto view = [&](Call call) {
    const std::variant<Type, std::string> made = derive_view(call, type(value));
    value = add(std::move(call), std::get<Type>(made), instead_of, name);
  };
  const auto rank = static_cast<int64_t>(type(value).shape.size());
  for (int64_t dim = 0; dim < rank; ++dim) {
    view({.info = &op_info("aten.slice.Tensor"),
          .args = {{value}, {dim}, {int64_t{0}}, {int64_t{1}}}});
  }
  view({.info = &op_info("aten.view"), .args = {{value}, {ArgList{{int64_t{1}}}}}});
  return value;
}

ValueId TermGraph::add_value(Node node) {
  names_.insert(node.name);
  if (trial_.on) trial_.names.push_back(node.name);
  return values_.push_back(std::move(node));
}

std::optional<ValueId> TermGraph::find_like(const Call& call, const Type& type) const {
  if (call.info->purity != Purity::pure && call.info->purity != Purity::view) return std::nullopt;
  const std::vector<ValueId> read = operands(call);
  if (read.empty()) return std::nullopt;
  for (TermId reader : readers(read.front())) {
    const Term& other = term(reader);
    if (other.results.size() == 1 && same_call(call, other) &&
        this->type(other.results.front()) == type) {
      return other.results.front();
    }
  }
  return std::nullopt;
}

std::string TermGraph::free_name(const std::string& wanted) const {
  if (!names_.contains(wanted)) return wanted;
  for (int number = 2;; ++number) {
    std::string candidate = wanted + "_" + std::to_string(number);
    if (!names_.contains(candidate)) return candidate;
  }
}

void TermGraph::read_operands(TermId id) {
  for (ValueId read : operands(term(id))) edit(read).readers.push_back(id);
}

void TermGraph::forget_operands(TermId id) {
  for (ValueId read : operands(term(id))) std::erase(edit(read).readers, id);
}

// ---- replacing

bool TermGraph::depends(ValueId to, TermId from) const {
  std::vector<char> seen(terms_.size(), 0);
  std::vector<TermId> waiting;
  const auto visit = [&](ValueId id) {
    const TermId made_by = producer(id);
    if (made_by.valid() && !std::exchange(seen[static_cast<std::size_t>(made_by.index)], 1)) {
      waiting.push_back(made_by);
    }
  };
  visit(to);
  while (!waiting.empty()) {
    const TermId next = waiting.back();
    waiting.pop_back();
    if (next == from) return true;
    for_each_value(term(next), visit);
  }
  return false;
}

bool TermGraph::can_replace(ValueId from, ValueId to) const {
  const Type& before = type(from);
  const Type& after = type(to);
  if (before.dtype != after.dtype || before.shape != after.shape) return false;
  if (is_returned(from) && !can_be_returned(to)) return false;
  if (before == after) return true;
  // What the step returns fills its storage, as it did.
  if (is_output(from) && !(before.strides == after.strides && is_dense(after) &&
                           after.offset == 0 && after.storage == before.storage)) {
    return false;
  }
  return std::ranges::all_of(readers(from),
                             [&](TermId reader) { return can_read(reader, from, after); });
}

// What the step returns is a tensor of its own: no input, and nothing that it returns already.
bool TermGraph::can_be_returned(ValueId value) const {
  const ValueId owner = base(value);
  return producer(owner).valid() && !is_returned(owner);
}

// Itself or as a view of it.
bool TermGraph::is_returned(ValueId value) const {
  return is_output(value) || std::ranges::any_of(readers(value), [&](TermId reader) {
           return term(reader).is_view() && is_returned(term(reader).results.front());
         });
}

// `reader`, and what reads it if it is a view, may have `now` instead of `from`'s type.
bool TermGraph::can_read(TermId reader, ValueId from, const Type& now) const {
  const Term& read = term(reader);
  if (read.is_view()) {
    const std::variant<Type, std::string> derived = derive_view(read, now);
    const auto* view = std::get_if<Type>(&derived);
    const ValueId result = read.results.front();
    if (view == nullptr) return false;
    if (*view == type(result)) return true;
    return !is_output(result) && std::ranges::all_of(readers(result), [&](TermId next) {
      return can_read(next, result, *view);
    });
  }
  if (read.info->purity != Purity::pure) return false;
  if (says_how_it_lies(read)) return true;
  const Type& before = type(from);
  if (before.strides == now.strides) return true;
  // In another order of dimensions a kernel's result would lie otherwise, too.
  if (!in_same_order(before, now)) return false;
  if (fills_memory_in_order(now)) return true;
  // Only a kernel that is known to follow strides may read what lies otherwise in memory.
  const Graph graph = alone(reader);
  const std::optional<AxisSignature> axes = axis_signature(graph, OpId(0));
  if (!axes) return false;
  std::size_t row = 0;
  bool may = true;
  for_each_value(read, [&](ValueId id) {
    if (id == from && axes->contiguous.at(row)) may = false;
    ++row;
  });
  return may;
}

void TermGraph::replace(ValueId from, ValueId to) {
  const TermId made_by = producer(from);
  set_type(from, type(to));
  const std::vector<TermId> moved(readers(from).begin(), readers(from).end());
  for (TermId reader : moved) {
    forget_operands(reader);
    substitute(edit(reader), from, to);
    read_operands(reader);
    touch(reader);
  }
  for (Output& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  edit(to).outputs += std::exchange(edit(from).outputs, 0);
  if (made_by.valid()) touch(made_by);
  if (producer(to).valid()) {
    touch(producer(to));
    if (made_by.valid() && term(producer(to)).place == term(made_by).place) {
      std::swap(edit(from).name, edit(to).name);
    }
  }
  if (made_by.valid()) drop(made_by);
}

// Views of it are typed anew.
void TermGraph::set_type(ValueId id, const Type& type) {
  if (values_[id].type == type) return;
  edit(id).type = type;
  for (TermId reader : readers(id)) {
    touch(reader);
    if (!term(reader).is_view()) continue;
    const std::variant<Type, std::string> derived = derive_view(term(reader), type);
    MAGIS_CHECK(std::holds_alternative<Type>(derived), std::get<std::string>(derived));
    set_type(term(reader).results.front(), std::get<Type>(derived));
  }
}

void TermGraph::drop_unused(ValueId value) {
  if (producer(value).valid()) drop(producer(value));
}

// If nothing of what it makes is used and it may be left out.
void TermGraph::drop(TermId id) {
  const Term& dropped = terms_[id];
  const bool may = dropped.info->purity == Purity::pure || dropped.is_view();
  if (dropped.dead || !may ||
      !std::ranges::all_of(dropped.results, [&](ValueId result) { return is_unused(result); })) {
    return;
  }
  edit(id).dead = true;
  forget_operands(id);
  const std::vector<ValueId> read_before = operands(dropped);
  for (ValueId read : read_before) {
    for (TermId reader : readers(read)) touch(reader);
    if (producer(read).valid()) {
      touch(producer(read));
      drop(producer(read));
    }
  }
}

std::vector<TermId> TermGraph::take_changed() {
  std::vector<TermId> changed = std::exchange(changed_, {});
  std::ranges::sort(changed);
  const auto repeated = std::ranges::unique(changed);
  changed.erase(repeated.begin(), repeated.end());
  return changed;
}

// ---- trials

Term& TermGraph::edit(TermId id) {
  if (trial_.on && static_cast<std::size_t>(id.index) < trial_.term_count) {
    trial_.terms.try_emplace(id, terms_[id]);
  }
  return terms_[id];
}

TermGraph::Node& TermGraph::edit(ValueId id) {
  if (trial_.on && static_cast<std::size_t>(id.index) < trial_.value_count) {
    trial_.values.try_emplace(id, values_[id]);
  }
  return values_[id];
}

void TermGraph::begin_trial() {
  MAGIS_CHECK(!trial_.on, "a trial is on");
  trial_ = {.on = true,
            .term_count = terms_.size(),
            .value_count = values_.size(),
            .changed_count = changed_.size(),
            .outputs = outputs_};
}

void TermGraph::roll_back() {
  for (auto& [id, term] : trial_.terms) terms_[id] = std::move(term);
  for (auto& [id, value] : trial_.values) values_[id] = std::move(value);
  for (const std::string& name : trial_.names) names_.erase(name);
  terms_.shrink(trial_.term_count);
  values_.shrink(trial_.value_count);
  changed_.resize(trial_.changed_count);
  outputs_ = std::move(trial_.outputs);
  trial_ = {};
}

void TermGraph::commit() { trial_ = {}; }

std::vector<TermId> TermGraph::trial_changed() const {
  std::vector<TermId> changed;
  for (const auto& [id, term] : trial_.terms) changed.push_back(id);
  std::ranges::sort(changed);
  return changed;
}

}  // namespace magis
