#include "graph/axes_families.h"

namespace magis {
namespace {

// The axes that all forms of fused attention share.
struct AttentionAxes {
  DimAxis batch, group, row, column, width, value_width;
  DimAxis query_heads;  // the group's axis, as many heads a step as share a key
};

std::optional<AttentionAxes> add_attention_axes(SignatureBuilder& signature, std::size_t query_at,
                                                bool causal) {
  const Type* query = signature.operand(query_at);
  const Type* key = signature.operand(query_at + 1);
  const Type* value = signature.operand(query_at + 2);
  if (query == nullptr || key == nullptr || value == nullptr || query->shape.size() != 4 ||
      key->shape.size() != 4 || value->shape.size() != 4 || key->shape[1] == 0 ||
      query->shape[1] % key->shape[1] != 0) {
    return std::nullopt;
  }
  AttentionAxes axes;
  axes.batch = signature.add_axis(query->shape[0]);
  axes.group = signature.add_axis(key->shape[1]);
  axes.query_heads = {axes.group.axis, query->shape[1] / key->shape[1]};
  axes.row = signature.add_axis(query->shape[2], !causal);
  axes.column = signature.add_axis(key->shape[2], false);
  axes.width = signature.add_axis(query->shape[3], false);
  axes.value_width = signature.add_axis(value->shape[3], false);
  return axes;
}

Dims query_dims(const AttentionAxes& a) { return {a.batch, a.query_heads, a.row, a.width}; }
Dims key_dims(const AttentionAxes& a) { return {a.batch, a.group, a.column, a.width}; }
Dims value_dims(const AttentionAxes& a) { return {a.batch, a.group, a.column, a.value_width}; }
Dims output_dims(const AttentionAxes& a) { return {a.batch, a.query_heads, a.row, a.value_width}; }

void set_attention_operands(SignatureBuilder& signature, std::size_t query_at,
                            const AttentionAxes& axes) {
  signature.set_operand(query_at, query_dims(axes));
  signature.set_operand(query_at + 1, key_dims(axes));
  signature.set_operand(query_at + 2, value_dims(axes));
}

}  // namespace

// (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> output, logsumexp [B, H, L].
Signature attention_cpu(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  if (signature.number(3, "dropout_p") != 0) return std::nullopt;
  const auto axes = add_attention_axes(signature, 0, signature.truth(4, "is_causal"));
  if (!axes) return std::nullopt;
  set_attention_operands(signature, 0, *axes);
  signature.broadcast_operand(5, {axes->batch, axes->query_heads, axes->row, axes->column},
                              "attn_mask");
  signature.set_result(0, output_dims(*axes));
  signature.set_result(1, {axes->batch, axes->query_heads, axes->row});
  return signature.finish();
}

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale) ->
// gradients of query, key and value.
Signature attention_cpu_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  if (signature.number(6, "dropout_p") != 0) return std::nullopt;
  const auto axes = add_attention_axes(signature, 1, signature.truth(7, "is_causal"));
  if (!axes) return std::nullopt;
  set_attention_operands(signature, 1, *axes);
  signature.set_operand(0, output_dims(*axes));
  signature.set_operand(4, output_dims(*axes));
  signature.set_operand(5, {axes->batch, axes->query_heads, axes->row});
  signature.broadcast_operand(8, {axes->batch, axes->query_heads, axes->row, axes->column},
                              "attn_mask");
  signature.set_result(0, query_dims(*axes));
  signature.set_result(1, key_dims(*axes));
  signature.set_result(2, value_dims(*axes));
  signature.combine(1, axes->row, Dependence::sum);
  signature.combine(2, axes->row, Dependence::sum);
  return signature.finish();
}

}  // namespace magis
