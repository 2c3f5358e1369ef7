#include "graph/axes_families.h"

namespace magis {
namespace {

// Where a kernel's arguments stand. The backward's first argument is the gradient of the output.
struct AttentionForm {
  bool backward = false;
  std::size_t dropout = 0;
  std::size_t causal = 0;
  std::size_t bias = kNoPosition;           // or the keyword attn_mask
  std::size_t output = 0, logsumexp = 0;    // of backwards
  std::size_t longest_query = kNoPosition;  // an integer that repeats the number of query rows
  // CUDA's backwards are not known to follow the strides of a log-sum-exp.
  bool contiguous_logsumexp = false;
  // The rows of the log-sum-exp are padded: query rows do not split.
  bool pads_rows = false;

  std::size_t query() const { return backward ? 1 : 0; }
};

struct AttentionAxes {
  DimAxis batch, group, row, column, width, value_width;
  DimAxis query_heads;  // the group's axis, as many heads a step as share a key

  Dims query() const { return {batch, query_heads, row, width}; }
  Dims key() const { return {batch, group, column, width}; }
  Dims value() const { return {batch, group, column, value_width}; }
  Dims output() const { return {batch, query_heads, row, value_width}; }
  Dims scores() const { return {batch, query_heads, row, column}; }
};

std::optional<AttentionAxes> add_attention_axes(SignatureBuilder& signature,
                                                const AttentionForm& form) {
  const Type* query = signature.operand(form.query());
  const Type* key = signature.operand(form.query() + 1);
  const Type* value = signature.operand(form.query() + 2);
  if (query == nullptr || key == nullptr || value == nullptr || query->shape.size() != 4 ||
      key->shape.size() != 4 || value->shape.size() != 4 || key->shape[1] == 0 ||
      query->shape[1] % key->shape[1] != 0) {
    return std::nullopt;
  }
  // A causal mask counts rows from the first.
  const bool causal = signature.truth(form.causal, "is_causal");
  AttentionAxes axes;
  axes.batch = signature.add_axis(query->shape[0]);
  axes.group = signature.add_axis(key->shape[1]);
  axes.query_heads = {axes.group.axis, query->shape[1] / key->shape[1]};
  axes.row = signature.add_axis(query->shape[2], !causal && !form.pads_rows);
  axes.column = signature.add_axis(key->shape[2], false);
  axes.width = signature.add_axis(query->shape[3], false);
  axes.value_width = signature.add_axis(value->shape[3], false);
  return axes;
}

// [B, H, L], of some kernels [B, H, L, 1], or empty if it is not asked for, or padded rows.
Dims logsumexp_dims(const AttentionAxes& axes, const AttentionForm& form, const Type& type) {
  Dims dims = {axes.batch, axes.query_heads, form.pads_rows ? DimAxis{} : axes.row};
  if (type.shape.size() == 4) dims.emplace_back();
  return dims;
}

void set_bias(SignatureBuilder& signature, const AttentionForm& form, const AttentionAxes& axes) {
  signature.broadcast_operand(form.bias, axes.scores(), "attn_mask");
}

Signature attention_forward(const Graph& graph, const Operator& op, const AttentionForm& form) {
  SignatureBuilder signature(graph, op);
  // The bits that a kernel draws belong to places in the whole.
  if (signature.number(form.dropout, "dropout_p") != 0) return std::nullopt;
  const auto axes = add_attention_axes(signature, form);
  if (!axes) return std::nullopt;
  signature.set_operand(0, axes->query());
  signature.set_operand(1, axes->key());
  signature.set_operand(2, axes->value());
  set_bias(signature, form, *axes);
  signature.set_result(0, axes->output());
  if (const Type* logsumexp = signature.result(1)) {
    signature.set_result(1, logsumexp_dims(*axes, form, *logsumexp));
  }
  return signature.finish();
}

// The gradient of a bias that is asked for: summed where the bias is broadcast.
void set_bias_gradient(SignatureBuilder& signature, const AttentionForm& form,
                       const AttentionAxes& axes) {
  const Type* gradient = signature.result(3);
  if (gradient == nullptr || signature.operand(form.bias) == nullptr) return;
  signature.set_result(3, signature.broadcast(*gradient, axes.scores()));
  signature.combine(3, axes.scores(), Dependence::sum);
}

Signature attention_backward(const Graph& graph, const Operator& op, const AttentionForm& form) {
  SignatureBuilder signature(graph, op);
  if (signature.number(form.dropout, "dropout_p") != 0) return std::nullopt;
  const auto axes = add_attention_axes(signature, form);
  const Type* logsumexp = signature.operand(form.logsumexp);
  if (!axes || logsumexp == nullptr) return std::nullopt;
  signature.set_operand(0, axes->output());
  signature.set_operand(1, axes->query());
  signature.set_operand(2, axes->key());
  signature.set_operand(3, axes->value());
  signature.set_operand(form.output, axes->output());
  signature.set_operand(form.logsumexp, logsumexp_dims(*axes, form, *logsumexp));
  if (form.contiguous_logsumexp) signature.needs_contiguous(form.logsumexp);
  set_bias(signature, form, *axes);
  const bool rows_repeat = !signature.absent(form.longest_query, "max_q");
  if (rows_repeat) signature.repeats_length(form.longest_query, axes->row);
  signature.set_result(0, axes->query());
  signature.set_result(1, axes->key());
  signature.set_result(2, axes->value());
  signature.combine(1, axes->row, Dependence::sum);
  signature.combine(2, axes->row, Dependence::sum);
  set_bias_gradient(signature, form, *axes);
  return signature.finish();
}

}  // namespace

// (query, key, value, dropout_p, is_causal, *, attn_mask, scale) -> output, logsumexp.
Signature attention_cpu(const Graph& graph, const Operator& op) {
  return attention_forward(graph, op, {.dropout = 3, .causal = 4});
}

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask, scale).
Signature attention_cpu_backward(const Graph& graph, const Operator& op) {
  return attention_backward(
      graph, op, {.backward = true, .dropout = 6, .causal = 7, .output = 4, .logsumexp = 5});
}

// (query, key, value, dropout_p, is_causal, return_debug_mask, *, scale) -> output, logsumexp, ...
Signature attention_flash(const Graph& graph, const Operator& op) {
  return attention_forward(graph, op, {.dropout = 3, .causal = 4});
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
// is_causal, philox_seed, philox_offset, *, scale).
Signature attention_flash_backward(const Graph& graph, const Operator& op) {
  return attention_backward(graph, op,
                            {.backward = true,
                             .dropout = 10,
                             .causal = 11,
                             .output = 4,
                             .logsumexp = 5,
                             .longest_query = 8,
                             .contiguous_logsumexp = true});
}

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale).
Signature attention_efficient(const Graph& graph, const Operator& op) {
  return attention_forward(graph, op, {.dropout = 5, .causal = 6, .bias = 3, .pads_rows = true});
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
// grad_input_mask, is_causal, *, scale) -> gradients of query, key, value and bias.
Signature attention_efficient_backward(const Graph& graph, const Operator& op) {
  return attention_backward(graph, op,
                            {.backward = true,
                             .dropout = 9,
                             .causal = 11,
                             .bias = 4,
                             .output = 5,
                             .logsumexp = 6,
                             .contiguous_logsumexp = true,
                             .pads_rows = true});
}

// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, *,
// scale).
Signature attention_cudnn(const Graph& graph, const Operator& op) {
  return attention_forward(graph, op, {.dropout = 5, .causal = 6, .bias = 3});
}

// (grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q,
// cum_seq_k, max_q, max_k, dropout_p, is_causal, *, scale).
Signature attention_cudnn_backward(const Graph& graph, const Operator& op) {
  return attention_backward(graph, op,
                            {.backward = true,
                             .dropout = 13,
                             .causal = 14,
                             .bias = 8,
                             .output = 4,
                             .logsumexp = 5,
                             .longest_query = 11,
                             .contiguous_logsumexp = true});
}

}  // namespace magis
