// Graphs made of what a TermGraph holds.
#include <unordered_map>
#include <utility>

#include "magis/graph/builder.h"
#include "transform/rebuilder.h"
#include "transform/term_graph.h"
#include "transform/term_order.h"

namespace magis {
namespace {

using NewIds = std::unordered_map<ValueId, ValueId>;

void rename(Arg& arg, const NewIds& now) {
  if (auto* id = std::get_if<ValueId>(&arg.value)) {
    *id = now.at(*id);
  } else if (auto* list = std::get_if<ArgList>(&arg.value)) {
    for (Arg& item : *list) rename(item, now);
  }
}

void rename(Call& call, const NewIds& now) {
  for (Arg& arg : call.args) rename(arg, now);
  for (auto& [name, arg] : call.kwargs) rename(arg, now);
}

}  // namespace

// Adds an operator, whose operands are there; what it makes is then there, too.
void TermGraph::emit(Operator op, GraphBuilder& builder, NewIds& now) const {
  rename(op, now);
  const std::vector<ValueId> old = op.results;
  if (op.info->purity == Purity::view) {
    now[old.front()] = builder.add_view(name(old.front()), std::move(op), type(old.front()));
    return;
  }
  std::vector<std::string> names;
  std::vector<Type> types;
  for (ValueId result : old) {
    names.push_back(name(result));
    types.push_back(type(result));
  }
  const std::vector<ValueId> made =
      builder.add_operator(std::move(op), std::move(names), std::move(types));
  for (std::size_t i = 0; i < old.size(); ++i) now[old[i]] = made[i];
}

Graph TermGraph::alone(TermId id) const {
  GraphBuilder builder;
  builder.set_device(std::string(graph_->device()));
  NewIds now;
  for_each_value(term(id), [&](ValueId read) {
    if (now.contains(read)) return;
    Type alone = type(read);
    alone.storage = alone.defined ? minimal_storage(alone) : 0;
    const InputKind kind = alone.defined ? InputKind::batch : InputKind::scalar;
    now[read] = builder.add_input(kind, name(read), "", alone);
  });
  Operator op = term(id);
  op.site = {};
  emit(std::move(op), builder, now);
  return std::move(builder).build();
}

Graph TermGraph::graph(const std::vector<std::pair<std::string, std::string>>& meta) const {
  GraphBuilder builder;
  copy_header(*graph_, builder, meta);
  NewIds now;
  now.reserve(values_.size());
  for (const Input& input : graph_->inputs()) {
    now[input.value] =
        builder.add_input(input.kind, name(input.value), input.path, type(input.value));
  }
  for (TermId id : emission_order(*this)) emit(term(id), builder, now);
  for (const Output& output : outputs_) {
    builder.add_output(output.kind, output.path, now.at(output.value));
  }
  return std::move(builder).build();
}

Rewritten TermGraph::rewritten(const std::vector<std::pair<std::string, std::string>>& meta) const {
  Rewritten made{.graph = graph(meta)};
  for (TermId id : emission_order(*this)) {
    if (term(id).is_view()) continue;
    const OpId before = op_at_[term(id).place];
    const bool is_new = static_cast<std::size_t>(id.index) >= op_at_.size();
    if (is_new || !reads_as_before(id, before)) made.changed.emplace_back(made.stands_for.size());
    made.stands_for.push_back(before);
  }
  return made;
}

bool TermGraph::reads_as_before(TermId id, OpId op) const {
  std::vector<ValueId> now;
  for_each_value(term(id), [&](ValueId read) { now.push_back(base(read)); });
  std::vector<ValueId> before;
  for_each_value(graph_->op(op), [&](ValueId read) {
    const TensorId tensor = graph_->value(read).tensor;
    before.push_back(tensor.valid() ? graph_->tensor(tensor).value : read);
  });
  return now == before;
}

}  // namespace magis
