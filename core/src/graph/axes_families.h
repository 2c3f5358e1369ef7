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
// Forward and backward, whose buffer may be empty.
Signature log_sigmoid(const Graph& graph, const Operator& op);
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
  bool last_by_default = false;  // absent: the last dimension alone
};
Signature reduction(const Graph& graph, const Operator& op, const Reduction& reduction);
// For arguments that are given by keyword only, or not at all.
inline constexpr std::size_t kNoPosition = 99;
template <Dependence kCombine, std::size_t kDims = 1>
Signature reduces(const Graph& graph, const Operator& op) {
  return reduction(graph, op, {.dims_position = kDims, .combine = kCombine});
}
template <std::size_t kDims>
Signature reduces_last(const Graph& graph, const Operator& op) {
  return reduction(graph, op, {.dims_position = kDims, .last_by_default = true});
}
Signature aminmax(const Graph& graph, const Operator& op);
Signature value_selecting_backward(const Graph& graph, const Operator& op);
Signature renorm(const Graph& graph, const Operator& op);
// A loss of operands of one shape; the argument at kReduction says what becomes of the elements: 0
// nothing, 1 their mean, 2 their sum.
Signature loss(const Graph& graph, const Operator& op, std::size_t reduction_position);
template <std::size_t kReduction>
Signature elementwise_loss(const Graph& graph, const Operator& op) {
  return loss(graph, op, kReduction);
}
Signature loss_backward(const Graph& graph, const Operator& op, std::size_t reduction_position);
template <std::size_t kReduction>
Signature elementwise_loss_backward(const Graph& graph, const Operator& op) {
  return loss_backward(graph, op, kReduction);
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
// Tensors of one rank: the dimensions that an argument names, a number or a list, belong to no
// axis, the others are the same in all. Absent or empty, it names all of them.
struct Beside {
  std::size_t dims_position = 1;
  bool last_by_default = false;  // absent: the last dimension alone
};
Signature beside_dimensions(const Graph& graph, const Operator& op, const Beside& rule);
template <std::size_t kDims>
Signature beside(const Graph& graph, const Operator& op) {
  return beside_dimensions(graph, op, {.dims_position = kDims});
}
template <std::size_t kDims>
Signature beside_or_last(const Graph& graph, const Operator& op) {
  return beside_dimensions(graph, op, {.dims_position = kDims, .last_by_default = true});
}
Signature select_scatter(const Graph& graph, const Operator& op);
Signature unfold_backward(const Graph& graph, const Operator& op);
Signature diagonal_backward(const Graph& graph, const Operator& op);
Signature repeat(const Graph& graph, const Operator& op);
Signature repeat_interleave(const Graph& graph, const Operator& op);

// ---- gathers (axes_gathers.cpp)
Signature embedding_dense_backward(const Graph& graph, const Operator& op);
Signature embedding_bag(const Graph& graph, const Operator& op);
Signature gather(const Graph& graph, const Operator& op);
Signature scatter_rows(const Graph& graph, const Operator& op, bool adds);
template <bool kAdds>
Signature scatter(const Graph& graph, const Operator& op) {
  return scatter_rows(graph, op, kAdds);
}
Signature index_select(const Graph& graph, const Operator& op);
Signature index_write(const Graph& graph, const Operator& op, bool adds);
template <bool kAdds>
Signature writes_rows(const Graph& graph, const Operator& op) {
  return index_write(graph, op, kAdds);
}
Signature index_tensor(const Graph& graph, const Operator& op);
Signature index_put(const Graph& graph, const Operator& op);

// ---- convolutions (axes_convolution.cpp)
Signature convolution(const Graph& graph, const Operator& op);
Signature convolution_backward(const Graph& graph, const Operator& op);
Signature im2col(const Graph& graph, const Operator& op);
Signature col2im(const Graph& graph, const Operator& op);
Signature weight_norm(const Graph& graph, const Operator& op);
Signature weight_norm_backward(const Graph& graph, const Operator& op);

// ---- norms over batch, image or groups of channels (axes_norms.cpp)
// Whether a call trains is said by the argument at `training_position`, or, where that is -1, by
// `training`.
Signature batch_norm(const Graph& graph, const Operator& op, std::size_t last_statistic,
                     std::ptrdiff_t training_position, bool training);
template <std::size_t kLastStatistic, std::ptrdiff_t kTraining, bool kTrains = true>
Signature normalizes_channels(const Graph& graph, const Operator& op) {
  return batch_norm(graph, op, kLastStatistic, kTraining, kTrains);
}
Signature batch_norm_backward(const Graph& graph, const Operator& op);
Signature group_norm(const Graph& graph, const Operator& op);
Signature group_norm_backward(const Graph& graph, const Operator& op);

// ---- images (axes_images.cpp)
// All tensors share the dimensions before the last kImageRank, which belong to no axis.
Signature leading_dimensions(const Graph& graph, const Operator& op, std::size_t image_rank,
                             bool contiguous);
// kContiguous: the kernel reads its operands as contiguous memory.
template <std::size_t kImageRank, bool kContiguous = false>
Signature leading(const Graph& graph, const Operator& op) {
  return leading_dimensions(graph, op, kImageRank, kContiguous);
}
Signature upsample_backward(const Graph& graph, const Operator& op);
Signature pixel_shuffle(const Graph& graph, const Operator& op);
Signature pixel_unshuffle(const Graph& graph, const Operator& op);

// ---- attention (axes_attention.cpp)
// Fused attention over query [B, H, L, E], key and value [B, G, S, E], G dividing H.
Signature attention_cpu(const Graph& graph, const Operator& op);
Signature attention_cpu_backward(const Graph& graph, const Operator& op);
Signature attention_flash(const Graph& graph, const Operator& op);
Signature attention_flash_backward(const Graph& graph, const Operator& op);
Signature attention_efficient(const Graph& graph, const Operator& op);
Signature attention_efficient_backward(const Graph& graph, const Operator& op);
Signature attention_cudnn(const Graph& graph, const Operator& op);
Signature attention_cudnn_backward(const Graph& graph, const Operator& op);

}  // namespace magis
