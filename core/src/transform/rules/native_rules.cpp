#include "transform/rules/native_rules.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "transform/rules/attention.h"
#include "transform/rules/scale_in_products.h"
#include "transform/rules/split_channels.h"
#include "transform/rules/term_reading.h"

namespace magis {
namespace {

bool is_call_of(const TermGraph& terms, ValueId value, std::string_view name) {
  const TermId producer = terms.producer(value);
  return producer.valid() && terms.term(producer).info->name == name;
}

// One result of one operator becomes another value.
class ValueRule : public RewriteRule {
 public:
  // The value that the anchor's result is replaced by; may be made. Nothing if the rule does not
  // apply.
  using Replacement = std::optional<ValueId> (*)(TermGraph&, TermId);
  using Condition = bool (*)(const TermGraph&, TermId);

  ValueRule(RuleInfo info, std::vector<std::string_view> operators, Condition condition,
            Replacement replacement)
      : RewriteRule(std::move(info)), condition_(condition), replacement_(replacement) {
    for (std::string_view name : operators) anchors_.push_back(&op_info(name));
  }

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    const bool fits = std::ranges::find(anchors_, term.info) != anchors_.end();
    if (term.dead || !fits || term.results.size() != 1 || !condition_(terms, anchor)) return {};
    return {{.rule = this, .anchor = anchor, .terms = {anchor}, .roots = term.results}};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const ValueId root = match.roots.front();
    const std::optional<ValueId> now = replacement_(terms, match.anchor);
    if (!now) return false;
    if (terms.can_replace(root, *now)) {
      terms.replace(root, *now);
      return true;
    }
    terms.drop_unused(*now);
    return false;
  }

  std::vector<const OpInfo*> anchors() const override { return anchors_; }
  Reach reach() const override { return {.below = 2}; }

 private:
  Condition condition_;
  Replacement replacement_;
  std::vector<const OpInfo*> anchors_;
};

// ---- what is there already

// The same call made twice: the later one reads what the earlier one made.
class CommonSubexpression : public RewriteRule {
 public:
  CommonSubexpression()
      : RewriteRule({.name = "common_subexpression",
                     .description = "what is computed twice is computed once",
                     .exact = true}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const TermId earlier = earlier_twin(terms, anchor);
    if (!earlier.valid()) return {};
    RuleMatch match{.rule = this, .anchor = anchor, .terms = {anchor, earlier}};
    match.roots = terms.term(anchor).results;
    return {match};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const std::vector<ValueId> now = terms.term(match.terms[1]).results;
    for (std::size_t r = 0; r < now.size(); ++r) {
      if (!terms.can_replace(match.roots[r], now[r])) return false;
    }
    for (std::size_t r = 0; r < now.size(); ++r) terms.replace(match.roots[r], now[r]);
    return true;
  }

  std::vector<const OpInfo*> anchors() const override { return {}; }
  bool merges() const override { return true; }
  Reach reach() const override { return {.below = 1, .beside = true}; }

 private:
  static TermId earlier_twin(const TermGraph& terms, TermId anchor) {
    const Term& term = terms.term(anchor);
    if (term.dead || (term.info->purity != Purity::pure && !term.is_view())) return {};
    ValueId operand;
    for_each_value(term, [&](ValueId id) { operand = id; });
    if (!operand.valid()) return {};
    for (TermId reader : terms.readers(operand)) {
      const Term& other = terms.term(reader);
      const bool before = std::pair(other.place, reader) < std::pair(term.place, anchor);
      if (before && other.info == term.info && other.args == term.args &&
          other.kwargs == term.kwargs && other.results.size() == term.results.size()) {
        return may_share(terms, term) ? reader : TermId();
      }
    }
    return {};
  }

  // Two results that the step returns are two tensors; an input that is written to is another one
  // later.
  static bool may_share(const TermGraph& terms, const Term& term) {
    bool changes = false;
    for_each_value(term, [&](ValueId id) { changes = changes || terms.is_overwritten(id); });
    return !changes &&
           std::ranges::none_of(term.results, [&](ValueId id) { return terms.is_output(id); });
  }
};

bool changes_nothing(const TermGraph& terms, TermId anchor) {
  const Term& term = terms.term(anchor);
  return term.is_view() && terms.type(first_operand(term)) == terms.type(term.results.front());
}

std::optional<ValueId> its_operand(TermGraph& terms, TermId anchor) {
  return first_operand(terms.term(anchor));
}

// A copy that lies in memory as what it copies.
bool is_needless_copy(const TermGraph& terms, TermId anchor) {
  const Term& term = terms.term(anchor);
  const ValueId copied = first_operand(term);
  const Type& from = terms.type(copied);
  const Type& to = terms.type(term.results.front());
  return !terms.is_output(term.results.front()) && !terms.is_overwritten(copied) &&
         from.dtype == to.dtype && from.shape == to.shape && from.strides == to.strides;
}

// ---- permutations

std::vector<int64_t> permutation(const TermGraph& terms, const Term& term) {
  const auto rank = static_cast<int64_t>(terms.type(term.results.front()).shape.size());
  std::vector<int64_t> dims;
  for (const Arg& arg : std::get<ArgList>(term.args.at(1).value)) {
    const int64_t dim = integer_value(arg).value_or(0);
    dims.push_back(dim < 0 ? dim + rank : dim);
  }
  return dims;
}

bool permutes_twice(const TermGraph& terms, TermId anchor) {
  return is_call_of(terms, first_operand(terms.term(anchor)), "aten.permute");
}

std::optional<ValueId> permuted_once(TermGraph& terms, TermId anchor) {
  const Term outer = terms.term(anchor);
  const Term& inner = terms.term(terms.producer(first_operand(outer)));
  const std::vector<int64_t> first = permutation(terms, inner);
  ArgList dims;
  bool identity = true;
  for (int64_t dim : permutation(terms, outer)) {
    identity =
        identity && first[static_cast<std::size_t>(dim)] == static_cast<int64_t>(dims.size());
    dims.push_back({first[static_cast<std::size_t>(dim)]});
  }
  const ValueId base = first_operand(inner);
  if (identity) return base;
  Call call{.info = outer.info, .args = {{base}, {std::move(dims)}}};
  const std::variant<Type, std::string> type = derive_view(call, terms.type(base));
  if (std::holds_alternative<std::string>(type)) return std::nullopt;
  return terms.add(std::move(call), std::get<Type>(type), anchor,
                   terms.name(outer.results.front()) + "_permute");
}

// ---- casts

std::optional<DType> cast_to(const Term& term) {
  if (term.args.size() != 1 || term.kwargs.size() != 1 || term.kwargs[0].first != "dtype") {
    return std::nullopt;
  }
  const auto* symbol = std::get_if<Symbol>(&term.kwargs[0].second.value);
  return symbol == nullptr ? std::nullopt
                           : dtype_of_torch_word(
                                 std::string_view(symbol->word).substr(symbol->word.find('.') + 1));
}

// Every number of `narrow` is one of `wide`.
bool holds_all(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (narrow == DType::f32) return wide == DType::f64;
  return is_half(narrow) && (wide == DType::f32 || wide == DType::f64);
}

bool casts_twice(const TermGraph& terms, TermId anchor) {
  const Term& outer = terms.term(anchor);
  const ValueId middle = first_operand(outer);
  if (!is_call_of(terms, middle, "aten._to_copy") || !cast_to(outer)) return false;
  const Term& inner = terms.term(terms.producer(middle));
  return cast_to(inner) &&
         holds_all(terms.type(middle).dtype, terms.type(first_operand(inner)).dtype);
}

std::optional<ValueId> cast_once(TermGraph& terms, TermId anchor) {
  const Term outer = terms.term(anchor);
  const ValueId base = first_operand(terms.term(terms.producer(first_operand(outer))));
  const Type& type = terms.type(outer.results.front());
  if (terms.is_overwritten(base)) return std::nullopt;
  if (terms.type(base).dtype == type.dtype) {
    return terms.is_output(outer.results.front()) ? std::nullopt : std::optional(base);
  }
  Call call = outer;
  call.args = {{base}};
  return terms.add(std::move(call), type, anchor, terms.name(outer.results.front()) + "_cast");
}

// ---- concatenations and their slices

std::optional<Slice> slice_of(const TermGraph& terms, ValueId value) {
  if (!is_call_of(terms, value, "aten.slice.Tensor")) return std::nullopt;
  return slice_of(terms, terms.term(terms.producer(value)));
}

// The item of a concatenation that the slice is, if it is one.
std::optional<ValueId> sliced_item(const TermGraph& terms, TermId anchor) {
  const std::optional<Slice> slice = slice_of(terms, terms.term(anchor).results.front());
  if (!slice || !is_call_of(terms, slice->base, "aten.cat")) return std::nullopt;
  const Term& cat = terms.term(terms.producer(slice->base));
  if (concatenated_dim(terms, cat) != slice->dim) return std::nullopt;
  int64_t begin = 0;
  for (const Arg& item : std::get<ArgList>(cat.args.front().value)) {
    const ValueId value = std::get<ValueId>(item.value);
    const Shape& shape = terms.type(value).shape;
    if (static_cast<int64_t>(shape.size()) <= slice->dim) return std::nullopt;  // torch skips [0]
    const int64_t end = begin + shape[static_cast<std::size_t>(slice->dim)];
    if (begin == slice->begin && end == slice->end) return value;
    begin = end;
  }
  return std::nullopt;
}

// What was cut into the items of a concatenation, if they are all of it.
std::optional<ValueId> cut_up(const TermGraph& terms, TermId anchor) {
  const Term& cat = terms.term(anchor);
  const int64_t dim = concatenated_dim(terms, cat);
  ValueId whole;
  int64_t end = 0;
  for (const Arg& item : std::get<ArgList>(cat.args.front().value)) {
    const std::optional<Slice> slice = slice_of(terms, std::get<ValueId>(item.value));
    if (!slice || slice->dim != dim || slice->begin != end) return std::nullopt;
    if (whole.valid() && slice->base != whole) return std::nullopt;
    whole = slice->base;
    end = slice->end;
  }
  const ValueId result = cat.results.front();
  if (!whole.valid() || terms.type(whole).shape != terms.type(result).shape ||
      terms.is_output(result) || terms.is_overwritten(whole)) {
    return std::nullopt;
  }
  return whole;
}

}  // namespace

std::vector<std::unique_ptr<RewriteRule>> make_native_rules() {
  std::vector<std::unique_ptr<RewriteRule>> rules;
  const auto add = [&](RuleInfo info, std::vector<std::string_view> operators,
                       ValueRule::Condition condition, ValueRule::Replacement replacement) {
    rules.push_back(
        std::make_unique<ValueRule>(std::move(info), std::move(operators), condition, replacement));
  };
  rules.push_back(std::make_unique<CommonSubexpression>());
  add({.name = "view_of_nothing",
       .description = "a view that changes nothing is its base",
       .exact = true},
      {"aten.view", "aten.permute", "aten.slice.Tensor", "aten.expand"}, changes_nothing,
      its_operand);
  add({.name = "permute_twice",
       .description = "a permutation of a permutation is one",
       .exact = true},
      {"aten.permute"}, permutes_twice, permuted_once);
  add({.name = "needless_copy",
       .description = "a copy that lies in memory as what it copies is that",
       .exact = true},
      {"aten.clone"}, is_needless_copy, its_operand);
  add({.name = "cast_twice",
       .description = "a cast by way of a wider type is one cast",
       .exact = true},
      {"aten._to_copy"}, casts_twice, cast_once);
  add(
      {.name = "slice_of_concatenation",
       .description = "the slice of a concatenation that is one of its items is that item",
       .exact = true},
      {"aten.slice.Tensor"},
      [](const TermGraph& terms, TermId anchor) { return sliced_item(terms, anchor).has_value(); },
      [](TermGraph& terms, TermId anchor) { return sliced_item(terms, anchor); });
  add(
      {.name = "concatenation_of_slices",
       .description = "the slices of a tensor, side by side again, are that tensor",
       .exact = true},
      {"aten.cat"},
      [](const TermGraph& terms, TermId anchor) { return cut_up(terms, anchor).has_value(); },
      [](TermGraph& terms, TermId anchor) { return cut_up(terms, anchor); });
  rules.push_back(make_scale_in_products());
  rules.push_back(make_attention_of_parts());
  std::ranges::move(make_channel_rules(), std::back_inserter(rules));
  return rules;
}

}  // namespace magis
