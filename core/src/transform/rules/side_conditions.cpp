#include "transform/rules/side_conditions.h"

#include <algorithm>

namespace magis {
namespace {

class Conditions {
 public:
  Conditions(const Rule& rule, const TermGraph& terms, const Binding& binding)
      : rule_(rule), terms_(terms), binding_(binding) {}

  bool hold() const {
    const DType dtype = terms_.type(value_of(rule_.roots.front().from)).dtype;
    if (dtype != DType::f64 && dtype != DType::f32 && !is_half(dtype)) return false;
    if (rule_.wide && is_half(dtype)) return false;
    for (std::size_t n = 0; n < rule_.left_count; ++n) {
      const ValueId value = binding_.nodes[n];
      const Type& type = terms_.type(value);
      if (type.dtype != dtype || terms_.is_overwritten(value)) return false;
      const std::optional<Shape> shape = binding_.symbols.evaluate(rule_.nodes[n].shape);
      if (!shape || *shape != type.shape) return false;
    }
    for (const std::vector<ValueId>& sequence : binding_.sequences) {
      for (ValueId value : sequence) {
        if (terms_.type(value).dtype != dtype || terms_.is_overwritten(value)) return false;
      }
    }
    return roots_differ() && std::ranges::all_of(rule_.conditions, [&](const Condition& condition) {
             return holds(condition);
           });
  }

 private:
  ValueId value_of(int node) const { return binding_.nodes[static_cast<std::size_t>(node)]; }

  bool roots_differ() const {
    for (std::size_t a = 0; a < rule_.roots.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (value_of(rule_.roots[a].from) == value_of(rule_.roots[b].from)) {
          return false;
        }
      }
    }
    return true;
  }

  bool holds(const Condition& condition) const {
    const auto all = [&](const auto& what) {
      return std::ranges::all_of(condition.nodes, [&](int node) { return what(value_of(node)); });
    };
    const auto length = [&](std::size_t i) {
      return condition.lengths[i].evaluate(binding_.symbols.lengths);
    };
    switch (condition.kind) {
      case Condition::Kind::once:
        return all(
            [&](ValueId id) { return terms_.readers(id).size() == 1 && !terms_.is_output(id); });
      case Condition::Kind::weight:
        return all([&](ValueId id) {
          const std::optional<InputKind> kind = terms_.input_kind(id);
          return kind == InputKind::param || kind == InputKind::buffer ||
                 kind == InputKind::constant;
        });
      case Condition::Kind::different:
        for (std::size_t a = 0; a < condition.nodes.size(); ++a) {
          for (std::size_t b = 0; b < a; ++b) {
            if (value_of(condition.nodes[a]) == value_of(condition.nodes[b])) {
              return false;
            }
          }
        }
        return true;
      case Condition::Kind::complete:
        return terms_.input_kind(value_of(condition.nodes.at(0))) ||
               !is_transposed_activation(value_of(condition.nodes.at(1)));
      case Condition::Kind::equal:
        return length(0) && length(0) == length(1);
      case Condition::Kind::less:
        return length(0) && length(1) && *length(0) < *length(1);
    }
    return false;
  }

  bool is_transposed_activation(ValueId value) const {
    if (terms_.input_kind(value)) return false;
    for (TermId producer = terms_.producer(value); terms_.term(producer).is_view();) {
      const Term& view = terms_.term(producer);
      if (view.info->name == "aten.permute") return true;
      producer = terms_.producer(std::get<ValueId>(view.args.front().value));
    }
    return false;
  }

  const Rule& rule_;
  const TermGraph& terms_;
  const Binding& binding_;
};

}  // namespace

bool holds(const Rule& rule, const TermGraph& terms, const Binding& binding) {
  return Conditions(rule, terms, binding).hold();
}

}  // namespace magis
