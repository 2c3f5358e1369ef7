#include "graph/axes_families.h"

namespace magis {

Signature reduction(const Graph& graph, const Operator& op, const Reduction& rule) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(0);
  if (input == nullptr) return std::nullopt;
  const std::size_t rank = input->shape.size();
  std::vector<int64_t> numbers = signature.integers(rule.dims_position, "dim");
  if (rule.last_by_default && signature.absent(rule.dims_position, "dim")) numbers = {-1};
  std::vector<bool> reduced(rank, numbers.empty());
  for (int64_t number : numbers) {
    const std::size_t dim = signature.dimension(number, rank);
    if (dim < rank) reduced[dim] = true;
  }

  const Dims dims = signature.add_axes(input->shape);
  signature.set_operand(0, dims);
  Dims kept;      // keepdim=False
  Dims in_place;  // keepdim=True
  for (std::size_t d = 0; d < rank; ++d) {
    if (!reduced[d]) kept.push_back(dims[d]);
    in_place.push_back(reduced[d] ? DimAxis{} : dims[d]);
    if (reduced[d] && rule.combine == Dependence::once) signature.keep_whole(dims[d]);
  }
  for (std::size_t i = 0; i < signature.result_count(); ++i) {
    const Type* result = signature.result(i);
    if (result == nullptr) continue;
    signature.set_result(i, result->shape.size() == rank ? in_place : kept);
    for (std::size_t d = 0; d < rank; ++d) {
      if (reduced[d]) signature.combine(i, dims[d], rule.combine);
    }
  }
  return signature.finish();
}

// (self, *, dim, keepdim) -> least and largest.
Signature aminmax(const Graph& graph, const Operator& op) {
  Signature signature = reduction(graph, op, {.dims_position = 1, .combine = Dependence::minimum});
  if (signature && signature->dependence.size() == 2) {
    for (Dependence& dependence : signature->dependence[1]) {
      if (dependence == Dependence::minimum) dependence = Dependence::maximum;
    }
  }
  return signature;
}

// (grad, dim, indices, [lengths of the base], keepdim): the gradient of max.dim and its like.
Signature value_selecting_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  const Type* grad = signature.operand(0);
  if (result == nullptr || grad == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t rank = result->shape.size();
  const std::size_t dim = signature.dimension(signature.integer(1, "dim"), rank);
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(d == dim ? DimAxis{} : signature.add_axis(result->shape[d]));
  }
  signature.set_result(0, dims);
  signature.repeats_lengths(3, dims, "sizes");
  if (grad->shape.size() < rank) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(dim));
  signature.set_operand(0, dims);
  signature.set_operand(2, dims);
  return signature.finish();
}

// (self, p, dim, maxnorm): every slice along `dim` has its own norm.
Signature renorm(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* self = signature.operand(0);
  if (self == nullptr) return std::nullopt;
  const std::size_t rank = self->shape.size();
  const std::size_t dim = signature.dimension(signature.integer(2, "dim"), rank);
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(signature.add_axis(self->shape[d], d == dim));
  }
  signature.set_operand(0, dims);
  signature.set_result(0, dims);
  return signature.finish();
}

namespace {

constexpr int64_t kNone = 0;
constexpr int64_t kMean = 1;
constexpr int64_t kSum = 2;

}  // namespace

Signature loss(const Graph& graph, const Operator& op, std::size_t reduction_position) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(0);
  const Type* result = signature.result(0);
  if (input == nullptr || result == nullptr) return std::nullopt;
  const int64_t mode = signature.integer(reduction_position, "reduction", 1);
  if (mode == kNone) return pointwise(graph, op);
  const Dims dims = signature.add_axes(input->shape, mode == kSum);
  signature.broadcast_every_operand(dims);
  signature.combine(0, dims, Dependence::sum);
  return signature.finish();
}

// The gradient of a mean divides by the number of elements, which a part does not know.
Signature loss_backward(const Graph& graph, const Operator& op, std::size_t reduction_position) {
  const int64_t mode = SignatureBuilder(graph, op).integer(reduction_position, "reduction", kMean);
  return mode == kMean ? std::nullopt : pointwise(graph, op);
}

// (self [N,C] or [N,C,H,W], target [N] or [N,H,W], weight [C], reduction, ignore_index) -> loss,
// total weight.
Signature nll_loss_forward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(0);
  if (input == nullptr || input->shape.size() < 2) return std::nullopt;
  const int64_t mode = signature.integer(3, "reduction", 1);
  Dims dims = signature.add_axes(input->shape, mode == kNone || mode == kSum);
  signature.keep_whole(dims[1]);
  signature.set_operand(0, dims);
  signature.set_operand(2, {dims[1]});
  dims.erase(dims.begin() + 1);
  signature.set_operand(1, dims);
  if (mode == kNone) {
    signature.set_result(0, dims);
  } else {
    signature.combine(0, dims, Dependence::sum);
    signature.combine(1, dims, Dependence::sum);
  }
  return signature.finish();
}

// (grad, self, target, weight, reduction, ignore_index, total_weight) -> grad of self.
Signature nll_loss_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(1);
  if (input == nullptr || input->shape.size() < 2) return std::nullopt;
  const int64_t mode = signature.integer(4, "reduction", 1);
  Dims dims = signature.add_axes(input->shape);
  signature.keep_whole(dims[1]);
  signature.set_operand(1, dims);
  signature.set_operand(3, {dims[1]});
  signature.set_result(0, dims);
  dims.erase(dims.begin() + 1);
  if (mode == kNone) signature.set_operand(0, dims);
  signature.set_operand(2, dims);
  return signature.finish();
}

}  // namespace magis
