#include "transform/rules/scale_in_products.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "transform/rules/term_reading.h"

namespace magis {
namespace {

// x a, as a factor of products only: the products scale. Follows views.
class ScaleInProducts : public RewriteRule {
 public:
  ScaleInProducts()
      : RewriteRule(
            {.name = "scale_in_products",
             .description = "a multiple that only matrix products read is scaled by them"}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    if (term.dead || !factor_of(term)) return {};
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
    const double by = *factor_of(scaled);
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
      const std::optional<double> number = number_value(alpha->second);
      if (!number) return std::nullopt;
      alpha->second = {by * *number};
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

std::unique_ptr<RewriteRule> make_scale_in_products() {
  return std::make_unique<ScaleInProducts>();
}

}  // namespace magis
