#include "transform/rules/attention.h"

#include <string>
#include <utility>
#include <vector>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "transform/rules/attention_parts.h"

namespace magis {
namespace {

// Calls of PyTorch's attention for CPUs in place of the parts.
class Maker {
 public:
  Maker(TermGraph& terms, const AttentionParts& parts)
      : terms_(terms),
        parts_(parts),
        dtype_(terms.type(terms.term(parts.softmax).results.front()).dtype) {}

  // False, with nothing changed, if something does not fit in memory as it lies.
  bool replace() {
    if (make() && !has_cycle()) {
      for (const auto& [from, to] : replaced_) terms_.replace(from, to);
      return true;
    }
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) terms_.drop_unused(*made);
    return false;
  }

 private:
  bool make() {
    at_ = terms_.producer(parts_.out.product.base);
    const auto q = operand(parts_.q, parts_.queries, true);
    const auto k = operand(parts_.k, parts_.keys, false);
    const auto v = operand(parts_.v, parts_.keys, false);
    if (!q || !k || !v || !make_mask()) return false;
    Type out = terms_.type(*q);
    out.offset = 0;
    out.storage = minimal_storage(out);
    Call forward{.info = &op_info("aten._scaled_dot_product_flash_attention_for_cpu"),
                 .args = {{*q}, {*k}, {*v}, {0.0}, {false}},
                 .kwargs = keywords()};
    const std::string name = terms_.name(parts_.out.product.base) + "_attention";
    const Type sums = by_rows(Shape{parts_.queries});
    const std::vector<ValueId> made =
        keep(terms_.add(std::move(forward), {out, sums}, at_, {name, name + "_logsumexp"}));
    if (!put(parts_.out, made[0])) return false;
    if (!parts_.softmax_backward.valid()) return true;

    at_ = parts_.softmax_backward;
    const auto grad = operand(parts_.grad, parts_.queries, false);
    if (!grad) return false;
    Call backward{.info = &op_info("aten._scaled_dot_product_flash_attention_for_cpu_backward"),
                  .args = {{*grad}, {*q}, {*k}, {*v}, {made[0]}, {made[1]}, {0.0}, {false}},
                  .kwargs = keywords()};
    const Type of_queries = by_rows({parts_.queries, parts_.width});
    const Type of_keys = by_rows({parts_.keys, parts_.width});
    const std::string gradient = name + "_grad";
    const std::vector<ValueId> gradients =
        keep(terms_.add(std::move(backward), {of_queries, of_keys, of_keys}, at_,
                        {gradient + "_query", gradient + "_key", gradient + "_value"}));
    return put(parts_.dq, gradients[0]) && put(parts_.dk, gradients[1]) &&
           put(parts_.dv, gradients[2]);
  }

  KeywordArgs keywords() const {
    KeywordArgs keywords;
    if (mask_.valid()) keywords.emplace_back("attn_mask", Arg{mask_});
    keywords.emplace_back("scale", Arg{parts_.scale});
    return keywords;
  }

  // The kernel keeps rows of all heads together.
  Type by_rows(const Shape& lengths) const {
    const int64_t heads = parts_.batch[1];
    Shape shape{parts_.batch[0], lengths[0], heads};
    if (lengths.size() > 1) shape.push_back(lengths[1]);
    Type type = contiguous_type(dtype_, shape);
    std::swap(type.shape[1], type.shape[2]);
    std::swap(type.strides[1], type.strides[2]);
    return type;
  }

  // ---- operands

  // In four dimensions, each row contiguous, as the kernel takes for granted; where it makes its
  // result like this one, also dense.
  std::optional<ValueId> operand(const Matrices& of, int64_t rows, bool is_dense_one) {
    Shape shape{parts_.batch[0], parts_.batch[1], rows, parts_.width};
    if (of.transposed) std::swap(shape[2], shape[3]);
    std::optional<ValueId> now = viewed(of.base, shape);
    if (now && of.transposed) now = transposed(*now);
    if (!now) return std::nullopt;
    const Type& type = terms_.type(*now);
    const bool fits =
        (type.strides.back() == 1 || type.shape.back() == 1) && (!is_dense_one || is_dense(type));
    return fits ? now : copied(*now);
  }

  bool make_mask() {
    if (!parts_.mask.valid()) return true;
    Shape shape = terms_.type(parts_.mask).shape;
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    const std::optional<ValueId> mask = viewed(parts_.mask, shape);
    if (mask) mask_ = *mask;
    return mask.has_value();
  }

  // ---- results

  // In the place of what a product made: views of the kernel's result, or a copy where what reads
  // it needs it as it lay.
  bool put(const Made& root, ValueId made) {
    return put(root.read, made, false) || put(root.read, made, true) ||
           put(root.product, made, true);
  }

  bool put(const Matrices& root, ValueId made, bool copy) {
    std::optional<ValueId> now = root.transposed ? transposed(made) : made;
    if (now && copy) now = copied(*now);
    if (now) now = viewed(*now, terms_.type(root.base).shape);
    if (!now) return false;
    // Dimensions of one element with other strides: what kernels make of that is not said.
    const bool odd = terms_.type(*now).strides != terms_.type(root.base).strides &&
                     fills_memory_in_order(terms_.type(*now));
    if ((odd && !copy) || !terms_.can_replace(root.base, *now)) return false;
    replaced_.emplace_back(root.base, *now);
    return true;
  }

  // The gradients follow from the result, which is replaced with them, and from nothing else that
  // is.
  bool has_cycle() const {
    for (std::size_t r = 0; r < replaced_.size(); ++r) {
      for (std::size_t n = 0; n < replaced_.size(); ++n) {
        const bool in_order = r == 0 && n > 0;
        const TermId replaced = terms_.producer(replaced_[r].first);
        if (!in_order && terms_.depends(replaced_[n].second, replaced)) return true;
      }
    }
    return false;
  }

  // ---- terms

  std::optional<ValueId> viewed(ValueId value, const Shape& shape) {
    if (terms_.type(value).shape == shape) return value;
    ArgList lengths;
    for (int64_t length : shape) lengths.push_back({length});
    return add_view({.info = &op_info("aten.view"), .args = {{value}, {std::move(lengths)}}});
  }

  std::optional<ValueId> transposed(ValueId value) {
    ArgList dims;
    for (int64_t dim : {0, 1, 3, 2}) dims.push_back({dim});
    return add_view({.info = &op_info("aten.permute"), .args = {{value}, {std::move(dims)}}});
  }

  ValueId copied(ValueId value) {
    Call call{.info = &op_info("aten.clone"),
              .args = {{value}},
              .kwargs = {{"memory_format", Arg{Symbol{"contiguous_format"}}}}};
    return keep({terms_.add(std::move(call), contiguous_type(dtype_, terms_.type(value).shape), at_,
                            terms_.name(value) + "_clone")})
        .front();
  }

  std::optional<ValueId> add_view(Call call) {
    const ValueId base = std::get<ValueId>(call.args.front().value);
    const std::variant<Type, std::string> type = derive_view(call, terms_.type(base));
    if (std::holds_alternative<std::string>(type)) return std::nullopt;
    return keep({terms_.add(std::move(call), std::get<Type>(type), at_,
                            terms_.name(base) + "_view")})
        .front();
  }

  std::vector<ValueId> keep(std::vector<ValueId> made) {
    made_.insert(made_.end(), made.begin(), made.end());
    return made;
  }

  TermGraph& terms_;
  const AttentionParts& parts_;
  const DType dtype_;
  TermId at_;  // in whose place what is made stands
  ValueId mask_;
  std::vector<ValueId> made_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

class AttentionOfParts : public RewriteRule {
 public:
  AttentionOfParts()
      : RewriteRule({.name = "attention_of_parts",
                     .description =
                         "products around a softmax are attention, and so are its derivatives"}) {}

  std::vector<RuleMatch> find(const TermGraph& terms, TermId anchor) const override {
    const Term& term = terms.term(anchor);
    const std::string& name = term.info->name;
    if (term.dead || (name != "aten._softmax" && name != "aten._safe_softmax")) return {};
    const std::optional<AttentionParts> parts = attention_parts(terms, anchor);
    if (!parts) return {};
    RuleMatch match{.rule = this, .anchor = anchor, .terms = {anchor}};
    match.roots = {parts->out.product.base};
    if (parts->softmax_backward.valid()) {
      match.terms.push_back(parts->softmax_backward);
      for (const Made& root : {parts->dq, parts->dk, parts->dv}) {
        match.roots.push_back(root.product.base);
      }
    }
    return {match};
  }

  bool apply(TermGraph& terms, const RuleMatch& match) const override {
    const std::optional<AttentionParts> parts = attention_parts(terms, match.anchor);
    return parts && Maker(terms, *parts).replace();
  }

  std::vector<const OpInfo*> anchors() const override {
    return {&op_info("aten._softmax"), &op_info("aten._safe_softmax")};
  }
  Reach reach() const override { return {.far = true}; }
};

}  // namespace

std::unique_ptr<RewriteRule> make_attention_of_parts() {
  return std::make_unique<AttentionOfParts>();
}

}  // namespace magis
