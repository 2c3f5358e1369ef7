#include "transform/rules/native_rules.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"

namespace magis {
namespace {

ValueId first_operand(const Term& term) { return std::get<ValueId>(term.args.front().value); }

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
    bool changes = false;
    for_each_value(term, [&](ValueId id) {
      operand = id;
      changes = changes || terms.is_overwritten(id);
    });
    // Two results that the step returns are two tensors.
    if (!operand.valid() || changes ||
        std::ranges::any_of(term.results, [&](ValueId id) { return terms.is_output(id); })) {
      return {};
    }
    for (TermId reader : terms.readers(operand)) {
      const Term& other = terms.term(reader);
      const bool before = std::pair(other.place, reader) < std::pair(term.place, anchor);
      if (before && other.info == term.info && other.args == term.args &&
          other.kwargs == term.kwargs && other.results.size() == term.results.size()) {
        return reader;
      }
    }
    return {};
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

struct Slice {
  ValueId base;
  int64_t dim, begin, end;
};

std::optional<Slice> slice_of(const TermGraph& terms, ValueId value) {
  if (!is_call_of(terms, value, "aten.slice.Tensor")) return std::nullopt;
  const Term& term = terms.term(terms.producer(value));
  const auto integer = [&](std::size_t at, int64_t otherwise) {
    return at < term.args.size() ? integer_value(term.args[at]).value_or(otherwise) : otherwise;
  };
  const ValueId base = first_operand(term);
  const Shape& shape = terms.type(base).shape;
  int64_t dim = integer(1, 0);
  if (dim < 0) dim += static_cast<int64_t>(shape.size());
  const int64_t length = shape.at(static_cast<std::size_t>(dim));
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length);
  };
  if (integer(4, 1) != 1 || !term.kwargs.empty()) return std::nullopt;
  return Slice{base, dim, place(integer(2, 0)), place(integer(3, length))};
}

int64_t concatenated_dim(const TermGraph& terms, const Term& cat) {
  const int64_t dim = cat.args.size() > 1 ? integer_value(cat.args[1]).value_or(0) : 0;
  const auto rank = static_cast<int64_t>(terms.type(cat.results.front()).shape.size());
  return dim < 0 ? dim + rank : dim;
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

// ---- scaling

// x a, as a factor of products only: the products scale. Follows views.
class ScaleInProducts : public RewriteRule {
 public:
  ScaleInProducts()
      : RewriteRule(
            {.name = "scale_in_products",
             .description = "a multiple that only matrix products read is scaled by them"}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    if (term.dead || !factor(term)) return {};
    const ValueId result = term.results.front();
    const DType dtype = terms.type(result).dtype;
    if ((dtype != DType::f32 && dtype != DType::f64) || terms.is_output(result) ||
        terms.is_overwritten(first_operand(term)) || terms.is_unused(result) ||
        terms.type(result) != [&] {
          Type type = terms.type(first_operand(term));
          type.offset = 0;
          type.storage = terms.type(result).storage;
          return type;
        }()) {
      return {};
    }
    RuleMatch match{.rule = this, .anchor = anchor, .terms = {anchor}, .roots = {result}};
    if (!collect(terms, result, kViews, match)) return {};
    return {match};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const Term scaled = terms.term(match.anchor);
    const double by = *factor(scaled);
    std::vector<std::pair<ValueId, ValueId>> replaced;
    for (std::size_t m = 1; m < match.terms.size(); ++m) {
      const Term product = terms.term(match.terms[m]);
      const std::optional<ValueId> now = make(terms, match.anchor, product, match.terms[m], by);
      if (!now) return give_up(terms, replaced);
      replaced.emplace_back(product.results.front(), *now);
      if (!terms.can_replace(product.results.front(), *now)) return give_up(terms, replaced);
    }
    for (const auto& [from, to] : replaced) terms.replace(from, to);
    return true;
  }

  std::vector<const OpInfo*> anchors() const override {
    return {&op_info("aten.mul.Scalar"), &op_info("aten.div.Scalar"), &op_info("aten.mul.Tensor"),
            &op_info("aten.div.Tensor")};
  }
  Reach reach() const override { return {.below = 1, .above = kViews}; }

 private:
  // So many views may lie between the multiple and the products.
  static constexpr int kViews = 4;

  static bool give_up(TermGraph& terms, const std::vector<std::pair<ValueId, ValueId>>& made) {
    for (const auto& [from, to] : made) terms.drop_unused(to);
    return false;
  }

  static std::optional<double> factor(const Term& term) {
    if (term.args.size() != 2 || !term.kwargs.empty()) return std::nullopt;
    double number = 0;
    if (const auto* real = std::get_if<double>(&term.args[1].value)) {
      number = *real;
    } else if (const auto* integer = std::get_if<int64_t>(&term.args[1].value)) {
      number = static_cast<double>(*integer);
    }
    if (number == 0) return std::nullopt;
    return term.info->name.find("div") == std::string::npos ? number : 1 / number;
  }

  // The position of the first of a product's two factors; nothing if it is no product that scales.
  static std::optional<std::size_t> first_factor(const Term& term) {
    const std::string& name = term.info->name;
    if (name == "aten.mm" || name == "aten.bmm") return 0;
    if (name == "aten.addmm" || name == "aten.baddbmm") return 1;
    return std::nullopt;
  }

  // Products that read `value`, through views or not, each in one place only, as a factor.
  static bool collect(const TermGraph& terms, ValueId value, int steps, RuleMatch& match) {
    if (steps == 0 || terms.is_output(value)) return false;
    for (TermId reader : terms.readers(value)) {
      const Term& term = terms.term(reader);
      if (term.is_view()) {
        if (!collect(terms, term.results.front(), steps - 1, match)) return false;
        continue;
      }
      const std::optional<std::size_t> factor = first_factor(term);
      if (!factor || std::ranges::find(match.terms, reader) != match.terms.end()) return false;
      for (std::size_t a = 0; a < *factor; ++a) {
        if (term.args[a] == Arg{value}) return false;
      }
      match.terms.push_back(reader);
      match.roots.push_back(term.results.front());
    }
    return match.terms.size() > 1;
  }

  static std::optional<ValueId> make(TermGraph& terms, TermId scaled, const Term& product,
                                     TermId instead_of, double by) {
    Call call = product;
    for (Arg& arg : call.args) {
      const auto* value = std::get_if<ValueId>(&arg.value);
      if (value == nullptr) continue;
      const std::optional<ValueId> now = unscaled(terms, scaled, *value, instead_of);
      if (!now) return std::nullopt;
      arg.value = *now;
    }
    const bool batched = product.info->name.find("bmm") != std::string::npos;
    if (*first_factor(product) == 0) {
      const std::optional<ValueId> corner =
          terms.any_element(terms.type(product.results.front()).dtype, instead_of);
      if (!corner) return std::nullopt;
      call.args.insert(call.args.begin(), {*corner});
      call.info = &op_info(batched ? "aten.baddbmm" : "aten.addmm");
      call.kwargs.emplace_back("beta", Arg{0.0});
    }
    const auto alpha = std::ranges::find(call.kwargs, "alpha", &std::pair<std::string, Arg>::first);
    if (alpha == call.kwargs.end()) {
      call.kwargs.emplace_back("alpha", Arg{by});
    } else {
      const auto* real = std::get_if<double>(&alpha->second.value);
      const auto* integer = std::get_if<int64_t>(&alpha->second.value);
      if (real == nullptr && integer == nullptr) return std::nullopt;
      alpha->second = {by * (real ? *real : static_cast<double>(*integer))};
    }
    const ValueId result = product.results.front();
    return terms.add(std::move(call), terms.type(result), instead_of,
                     terms.name(result) + "_scaled");
  }

  // `value`, where it is a chain of views of what `scaled` makes, of its operand instead.
  static std::optional<ValueId> unscaled(TermGraph& terms, TermId scaled, ValueId value,
                                         TermId instead_of) {
    const TermId producer = terms.producer(value);
    if (producer == scaled) return first_operand(terms.term(scaled));
    if (!producer.valid() || !terms.term(producer).is_view()) return value;
    const Term view = terms.term(producer);
    const std::optional<ValueId> base = unscaled(terms, scaled, first_operand(view), instead_of);
    if (!base || *base == first_operand(view)) return base ? std::optional(value) : std::nullopt;
    return viewed(terms, view, *base, instead_of, terms.name(value));
  }

  static std::optional<ValueId> viewed(TermGraph& terms, Call call, ValueId base, TermId instead_of,
                                       const std::string& name) {
    call.args.front() = {base};
    const std::variant<Type, std::string> type = derive_view(call, terms.type(base));
    if (std::holds_alternative<std::string>(type)) return std::nullopt;
    return terms.add(std::move(call), std::get<Type>(type), instead_of, name);
  }
};

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
  rules.push_back(std::make_unique<ScaleInProducts>());
  return rules;
}

}  // namespace magis
