// Axis rules of whole families of operators, for the entries of the op table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "graph/axes_builder.h"

namespace magis {

using Signature = std::optional<AxisSignature>;

// ---- element by element (axes_pointwise.cpp)
// Each result element is made from the elements that stand in its place in the operands, after
// broadcasting. All results have the same shape.
Signature pointwise(const Graph& graph, const Operator& op);
// The same, but for one dimension, which has to be whole: softmax, scans, sorts. `dim` is the
// argument at kDimension, -1 if it is absent.
Signature along_dimension(const Graph& graph, const Operator& op, std::size_t dimension_position);
template <std::size_t kDimension>
Signature along(const Graph& graph, const Operator& op) {
  return along_dimension(graph, op, kDimension);
}
// Made from literals and the list of lengths at kLengths; other operands only give their dtype.
Signature filled_shape(const Graph& graph, const Operator& op, std::size_t lengths_position);
template <std::size_t kLengths>
Signature filled(const Graph& graph, const Operator& op) {
  return filled_shape(graph, op, kLengths);
}

// ---- reductions (axes_reductions.cpp)
// Over the dimensions that the argument at `dims_position` lists, all where it is absent or empty.
struct Reduction {
  std::size_t dims_position = 1;
  // How parts are combined; `once`: not at all, the reduced dimensions stay whole.
  Dependence combine = Dependence::once;
};
Signature reduction(const Graph& graph, const Operator& op, const Reduction& reduction);
template <Dependence kCombine, std::size_t kDims = 1>
Signature reduces(const Graph& graph, const Operator& op) {
  return reduction(graph, op, {.dims_position = kDims, .combine = kCombine});
}
// A loss of operands of one shape; the argument at kReduction says what becomes of the elements: 0
// nothing, 1 their mean, 2 their sum.
Signature loss(const Graph& graph, const Operator& op, std::size_t reduction_position);
template <std::size_t kReduction>
Signature elementwise_loss(const Graph& graph, const Operator& op) {
  return loss(graph, op, kReduction);
}
// nll_loss and nll_loss2d, forward and backward.
Signature nll_loss_forward(const Graph& graph, const Operator& op);
Signature nll_loss_backward(const Graph& graph, const Operator& op);

// ---- movers (axes_movers.cpp)
Signature cat(const Graph& graph, const Operator& op);
Signature stack(const Graph& graph, const Operator& op);
// The gradient of a view that takes a part of a dimension: (grad, lengths of the base, dim, ...).
Signature slice_backward(const Graph& graph, const Operator& op);
Signature select_backward(const Graph& graph, const Operator& op);
Signature constant_pad(const Graph& graph, const Operator& op);

// ---- gathers (axes_gathers.cpp)
Signature embedding_dense_backward(const Graph& graph, const Operator& op);

// ---- attention (axes_attention.cpp)
// Fused attention over query [B, H, L, E], key and value [B, G, S, E], as each kernel orders its
// arguments.
struct AttentionForm {
  bool backward = false;
  std::size_t dropout = 0;  // positions of the arguments
  std::size_t causal = 0;
  std::ptrdiff_t bias = -1;  // the mask, -1: the keyword attn_mask
};
Signature attention(const Graph& graph, const Operator& op, const AttentionForm& form);
Signature attention_cpu(const Graph& graph, const Operator& op);
Signature attention_cpu_backward(const Graph& graph, const Operator& op);

}  // namespace magis
