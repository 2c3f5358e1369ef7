#include "transform/rules/text_rule.h"

#include <algorithm>
#include <utility>

#include "magis/graph/builder.h"
#include "transform/rules/words.h"

namespace magis {
namespace {

// The right side, made term by term.
class Maker {
 public:
  Maker(TermGraph& terms, const Rule& rule, const Binding& binding)
      : terms_(terms), rule_(rule), binding_(binding), values_(binding.nodes) {}

  // False if a shape or a layout is not as it has to be.
  bool make() {
    for (std::size_t n = rule_.left_count; n < rule_.nodes.size(); ++n) {
      const std::optional<ValueId> made = make(static_cast<int>(n));
      if (!made) return false;
      values_.push_back(*made);
    }
    return true;
  }

  ValueId at(int node) const { return values_[static_cast<std::size_t>(node)]; }

  void drop() {
    for (std::size_t n = values_.size(); n > rule_.left_count; --n) {
      terms_.drop_unused(values_[n - 1]);
    }
  }

 private:
  // The root whose place a node takes; the first for what several share.
  int root_of(int node) const {
    const auto found = std::ranges::find(rule_.roots, node, &Rule::Root::to);
    return found == rule_.roots.end() ? rule_.roots.front().from : found->from;
  }

  std::optional<ValueId> make(int id) {
    const PatternNode& node = rule_.nodes[static_cast<std::size_t>(id)];
    if (node.word->args.empty()) {
      return terms_.any_element(terms_.type(at(root_of(id))).dtype,
                                terms_.producer(at(root_of(id))));
    }
    const std::optional<Shape> shape = binding_.symbols.evaluate(node.shape);
    if (!shape) return std::nullopt;
    Call call = make_call(node);
    std::vector<const Type*> operands;
    for_each_value(call, [&](ValueId operand) { operands.push_back(&terms_.type(operand)); });
    std::optional<Type> type = result_type(*node.word, call, operands, *shape);
    if (!type) return std::nullopt;
    if (node.word->layout == Layout::view && *type == *operands.front()) {
      return std::get<ValueId>(call.args.front().value);  // it changes nothing
    }
    const ValueId root = at(root_of(id));
    const TermId instead_of = terms_.producer(root);
    return terms_.add(std::move(call), *std::move(type), instead_of,
                      terms_.name(root) + "_" + std::string(node.word->name));
  }

  Call make_call(const PatternNode& node) const {
    Call call;
    call.info = node.word->infos.front();
    call.kwargs = keywords_of(node, binding_);
    for (std::size_t a = 0; a < node.args.size(); ++a) {
      call.args.push_back(make_argument(node.word->args[a], node.args[a], call));
    }
    return call;
  }

  Arg make_argument(ArgKind kind, const PatternArg& arg, const Call& call) const {
    switch (kind) {
      case ArgKind::tensor:
        return {at(arg.node)};
      case ArgKind::tensors: {
        ArgList list;
        for (const ListItem& item : arg.items) {
          if (item.node >= 0) {
            list.push_back({at(item.node)});
          } else {
            for (ValueId value : binding_.sequences[static_cast<std::size_t>(item.sequence)]) {
              list.push_back({value});
            }
          }
        }
        return as_arg(std::move(list));
      }
      case ArgKind::dim:
        return {in_front(arg.dims.front(), call)};
      case ArgKind::dims: {
        ArgList list;
        for (int64_t dim : arg.dims) list.push_back({in_front(dim, call)});
        return as_arg(std::move(list));
      }
      default:
        return plain_argument(kind, arg, binding_);
    }
  }

  // A dimension counted from the front.
  int64_t in_front(int64_t dim, const Call& call) const {
    if (dim >= 0) return dim;
    const Arg& first = call.args.front();
    const auto* list = std::get_if<ArgList>(&first.value);
    const ValueId operand = std::get<ValueId>(list ? list->front().value : first.value);
    return dim + static_cast<int64_t>(terms_.type(operand).shape.size());
  }

  TermGraph& terms_;
  const Rule& rule_;
  const Binding& binding_;
  std::vector<ValueId> values_;
};

bool reads_a_root(const Rule& rule) {
  const auto is_root = [&](int node) {
    return std::ranges::find(rule.roots, node, &Rule::Root::from) != rule.roots.end();
  };
  for (std::size_t n = rule.left_count; n < rule.nodes.size(); ++n) {
    for (const PatternArg& arg : rule.nodes[n].args) {
      if (is_root(arg.node)) return true;
      for (const ListItem& item : arg.items) {
        if (is_root(item.node)) return true;
      }
    }
  }
  return false;
}

}  // namespace

TextRule::TextRule(Rule rule)
    : RewriteRule({.name = rule.name,
                   .description = rule.description,
                   .exact = rule.exact,
                   .wide = rule.wide}),
      rule_(std::move(rule)),
      matcher_(rule_),
      reach_{.below = matcher_.depth(), .beside = matcher_.tops().size() > 1},
      may_cycle_(rule_.roots.size() > 1 || reads_a_root(rule_)) {}

std::vector<const OpInfo*> TextRule::anchors() const {
  return rule_.nodes[static_cast<std::size_t>(matcher_.tops().front())].word->infos;
}

std::vector<RuleMatch> TextRule::find(const TermGraph& terms, TermId anchor) const {
  std::vector<RuleMatch> matches;
  for (Binding& binding : matcher_.match(terms, anchor)) {
    RuleMatch match{.rule = this, .anchor = anchor};
    for (std::size_t n = 0; n < rule_.left_count; ++n) {
      if (rule_.nodes[n].word != nullptr) match.terms.push_back(terms.producer(binding.nodes[n]));
    }
    for (const Rule::Root& root : rule_.roots) {
      match.roots.push_back(binding.nodes[static_cast<std::size_t>(root.from)]);
    }
    match.detail = std::make_shared<const Binding>(std::move(binding));
    matches.push_back(std::move(match));
  }
  return matches;
}

bool TextRule::apply(TermGraph& terms, const RuleMatch& match) const {
  const auto& binding = *static_cast<const Binding*>(match.detail.get());
  Maker maker(terms, rule_, binding);
  const auto fits = [&] {
    if (!maker.make()) return false;
    for (const Rule::Root& root : rule_.roots) {
      if (!terms.can_replace(maker.at(root.from), maker.at(root.to))) return false;
      for (const Rule::Root& other : rule_.roots) {
        if (may_cycle_ && terms.depends(maker.at(root.to), terms.producer(maker.at(other.from)))) {
          return false;
        }
      }
    }
    return true;
  };
  if (!fits()) {
    maker.drop();
    return false;
  }
  for (const Rule::Root& root : rule_.roots) terms.replace(maker.at(root.from), maker.at(root.to));
  maker.drop();  // what no root came to need
  return true;
}

}  // namespace magis
