#include "magis/graph/builder.h"

#include <utility>

#include "magis/base/error.h"

namespace magis {

void GraphBuilder::set_device(std::string device) { graph_.device_ = std::move(device); }

void GraphBuilder::add_meta(std::string key, std::string text) {
  graph_.meta_.emplace_back(std::move(key), std::move(text));
}

SiteId GraphBuilder::add_site(int number, std::string module, std::string source) {
  return graph_.sites_.push_back({number, std::move(module), std::move(source)});
}

ValueId GraphBuilder::add_value(Value value) {
  const ValueId id(graph_.values_.size());
  const bool is_new = names_.emplace(value.name, id).second;
  MAGIS_CHECK(is_new, "two values are named %" << value.name);
  return graph_.values_.push_back(std::move(value));
}

ValueId GraphBuilder::add_input(InputKind kind, std::string name, std::string path, Type type) {
  MAGIS_CHECK(type.defined == (kind != InputKind::scalar), name << " : " << to_text(type));
  const ValueId id =
      add_value({.name = std::move(name), .type = std::move(type), .kind = ValueKind::input});
  graph_.inputs_.push_back({kind, std::move(path), id});
  return id;
}

ValueId GraphBuilder::add_view(std::string name, Call call, Type type) {
  MAGIS_CHECK(call.info != nullptr && call.info->purity == Purity::view, name);
  MAGIS_CHECK(!call.args.empty() && std::holds_alternative<ValueId>(call.args[0].value),
              name << ": a view's first argument is its base");
  const int index = static_cast<int>(graph_.views_.size());
  const ValueId base = std::get<ValueId>(call.args[0].value);
  graph_.views_.push_back(std::move(call));
  return add_value({.name = std::move(name),
                    .type = std::move(type),
                    .kind = ValueKind::view,
                    .view = index,
                    .base = base});
}

std::vector<ValueId> GraphBuilder::add_operator(Operator op, std::vector<std::string> names,
                                                std::vector<Type> types) {
  MAGIS_CHECK(op.info != nullptr && op.info->purity != Purity::view && !names.empty(), "operator");
  MAGIS_CHECK(names.size() == types.size(), names.size() << " names, " << types.size() << " types");
  const OpId producer(graph_.operators_.size());
  op.results.clear();
  for (std::size_t i = 0; i < names.size(); ++i) {
    op.results.push_back(add_value(
        {.name = std::move(names[i]), .type = std::move(types[i]), .producer = producer}));
  }
  if (op.info->dropout_argument >= 0) {
    const Arg* dropout =
        find_argument(op, static_cast<std::size_t>(op.info->dropout_argument), "dropout_p");
    const bool is_zero = dropout == nullptr || dropout->value == Arg{0.0}.value ||
                         dropout->value == Arg{int64_t{0}}.value;
    if (!is_zero) op.info = &random_form(*op.info);
  }
  std::vector<ValueId> results = op.results;
  track_loops(op, producer);
  graph_.operators_.push_back(std::move(op));
  return results;
}

void GraphBuilder::add_output(OutputKind kind, std::string path, ValueId value) {
  graph_.outputs_.push_back({kind, std::move(path), value});
}

ValueId GraphBuilder::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? ValueId() : found->second;
}

namespace {

// The order of the canonical text: inputs; then for each operator the views that it is the first to
// read, then its results; then the views that only outputs read.
class Numbering {
 public:
  Numbering(IdMap<ValueId, Value> old_values, std::vector<Call> old_views)
      : old_values_(std::move(old_values)),
        old_views_(std::move(old_views)),
        new_id_(old_values_.size()) {}

  // A value that is not a view.
  void place(ValueId old) {
    MAGIS_CHECK(!new_id_[old].valid(), "%" << old_values_[old].name << " is placed twice");
    new_id_[old] = values.push_back(std::move(old_values_[old]));
  }

  ValueId placed_read(ValueId old) {
    MAGIS_CHECK(old.valid() && static_cast<std::size_t>(old.index) < new_id_.size(),
                "value id " << old.index);
    if (new_id_[old].valid()) return new_id_[old];
    Value& value = old_values_[old];
    MAGIS_CHECK(value.kind == ValueKind::view, "%" << value.name << " is read before it is made");
    Call call = std::move(old_views_[static_cast<std::size_t>(value.view)]);
    renumber(call);
    value.base = std::get<ValueId>(call.args[0].value);
    value.view = static_cast<int>(views.size());
    views.push_back(std::move(call));
    return new_id_[old] = values.push_back(std::move(value));
  }

  void renumber(Call& call) {
    for (Arg& arg : call.args) renumber(arg);
    for (auto& [name, arg] : call.kwargs) renumber(arg);
  }

  IdMap<ValueId, Value> values;
  std::vector<Call> views;

 private:
  void renumber(Arg& arg) {
    if (auto* id = std::get_if<ValueId>(&arg.value)) {
      *id = placed_read(*id);
    } else if (auto* list = std::get_if<ArgList>(&arg.value)) {
      for (Arg& item : *list) renumber(item);
    }
  }

  IdMap<ValueId, Value> old_values_;
  std::vector<Call> old_views_;
  IdMap<ValueId, ValueId> new_id_;
};

}  // namespace

void GraphBuilder::number_values() {
  Numbering numbering(std::move(graph_.values_), std::move(graph_.views_));
  for (Input& input : graph_.inputs_) {
    numbering.place(input.value);
    input.value = numbering.placed_read(input.value);
  }
  for (Operator& op : graph_.operators_) {
    numbering.renumber(op);
    for (ValueId& result : op.results) {
      numbering.place(result);
      result = numbering.placed_read(result);
    }
  }
  for (Output& output : graph_.outputs_) output.value = numbering.placed_read(output.value);
  graph_.values_ = std::move(numbering.values);
  graph_.views_ = std::move(numbering.views);
}

void GraphBuilder::link_tensors() {
  for (std::size_t i = 0; i < graph_.values_.size(); ++i) {
    Value& value = graph_.values_[ValueId(i)];
    if (value.kind == ValueKind::view) {
      value.tensor = graph_.values_[value.base].tensor;
    } else if (value.type.defined) {
      value.tensor = graph_.tensors_.push_back({.value = ValueId(i),
                                                .bytes = value.type.storage,
                                                .producer = value.producer,
                                                .is_input = value.kind == ValueKind::input});
      if (value.kind == ValueKind::input) graph_.persistent_bytes_ += value.type.storage;
    }
  }
  for (const Output& output : graph_.outputs_) {
    const Value& value = graph_.value(output.value);
    MAGIS_CHECK(value.tensor.valid(), "output %" << value.name << " has no storage");
    graph_.tensors_[value.tensor].is_output = true;
  }
  for (const Operator& op : graph_.operators_) {
    for (ValueId result : op.results) {
      if (graph_.value(result).tensor.valid()) graph_.makes_.push_back(graph_.value(result).tensor);
    }
    graph_.makes_.end_row();
  }
}

void GraphBuilder::link_edges() {
  IdMap<TensorId, OpId> last_reader(graph_.tensors_.size());
  for (std::size_t i = 0; i < graph_.operators_.size(); ++i) {
    const OpId op(i);
    for_each_value(graph_.op(op), [&](ValueId id) {
      const TensorId tensor = graph_.value(id).tensor;
      if (!tensor.valid() || last_reader[tensor] == op) return;
      last_reader[tensor] = op;
      graph_.reads_.push_back(tensor);
      graph_.edge_op_.push_back(op);
    });
    graph_.reads_.end_row();
  }
  std::vector<EdgeId> edges;
  for (std::size_t i = 0; i < graph_.edge_count(); ++i) edges.emplace_back(i);
  graph_.uses_ = Rows<EdgeId>::group(graph_.tensors_.size(), edges, [&](EdgeId edge) {
    return static_cast<std::size_t>(graph_.edge_tensor(edge).index);
  });
}

Graph GraphBuilder::build() && {
  MAGIS_CHECK(!open_loop_.valid(), "loop " << loop(open_loop_).name << " has no end");
  number_values();
  link_tensors();
  link_edges();
  link_precedence();
  find_in_place_choices();
  return std::move(graph_);
}

const Arg* find_argument(const Call& call, std::size_t position, std::string_view keyword) {
  if (position < call.args.size()) return &call.args[position];
  for (const auto& [name, arg] : call.kwargs) {
    if (name == keyword) return &arg;
  }
  return nullptr;
}

}  // namespace magis
