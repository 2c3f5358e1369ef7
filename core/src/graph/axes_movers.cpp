#include "graph/axes_families.h"

namespace magis {

Signature cat(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  const auto* tensors = op.args.empty() ? nullptr : std::get_if<ArgList>(&op.args[0].value);
  if (result == nullptr || tensors == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t joined =
      signature.dimension(signature.integer(1, "dim", 0), result->shape.size());
  Dims dims;
  for (std::size_t d = 0; d < result->shape.size(); ++d) {
    dims.push_back(d == joined ? DimAxis{} : signature.add_axis(result->shape[d]));
  }
  signature.set_result(0, dims);
  for (std::size_t item = 0; item < tensors->size(); ++item) {
    const auto* id = std::get_if<ValueId>(&(*tensors)[item].value);
    if (id == nullptr) return std::nullopt;
    // An empty list, [0], may be joined to anything.
    const Shape& shape = graph.value(*id).type.shape;
    if (shape != Shape{0}) signature.set_operand_in_list(0, item, dims);
  }
  return signature.finish();
}

Signature stack(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  const auto* tensors = op.args.empty() ? nullptr : std::get_if<ArgList>(&op.args[0].value);
  if (result == nullptr || tensors == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t added =
      signature.dimension(signature.integer(1, "dim", 0), result->shape.size());
  Dims dims;
  Dims stacked;
  for (std::size_t d = 0; d < result->shape.size(); ++d) {
    dims.push_back(d == added ? DimAxis{} : signature.add_axis(result->shape[d]));
    if (d != added) stacked.push_back(dims.back());
  }
  signature.set_result(0, dims);
  signature.set_operand(0, stacked);
  return signature.finish();
}

namespace {

// An axis for each dimension of the base but the one that the view takes a part of.
Dims axes_beside(SignatureBuilder& signature, const Shape& shape, std::size_t left_out) {
  Dims dims;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    dims.push_back(d == left_out ? DimAxis{} : signature.add_axis(shape[d]));
  }
  return dims;
}

}  // namespace

Signature slice_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr) return std::nullopt;
  const std::size_t rank = result->shape.size();
  const std::size_t sliced = signature.dimension(signature.integer(2, "dim"), rank);
  const Dims dims = axes_beside(signature, result->shape, sliced);
  signature.set_operand(0, dims);
  signature.repeats_lengths(1, dims, "input_sizes");
  signature.set_result(0, dims);
  return signature.finish();
}

Signature select_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t rank = result->shape.size();
  const std::size_t selected = signature.dimension(signature.integer(2, "dim"), rank);
  Dims dims = axes_beside(signature, result->shape, selected);
  signature.set_result(0, dims);
  signature.repeats_lengths(1, dims, "input_sizes");
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(selected));
  signature.set_operand(0, dims);
  return signature.finish();
}

// (self, [left of the last dimension, right, left of the one before, ...], value): dimensions that
// are padded or cropped stay as they are.
Signature constant_pad(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(0);
  if (input == nullptr) return std::nullopt;
  const std::vector<int64_t> pads = signature.integers(1, "pad");
  const std::size_t rank = input->shape.size();
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t pair = 2 * (rank - 1 - d);
    const bool padded = pair + 1 < pads.size() && (pads[pair] != 0 || pads[pair + 1] != 0);
    dims.push_back(padded ? DimAxis{} : signature.add_axis(input->shape[d]));
  }
  signature.set_operand(0, dims);
  signature.set_result(0, dims);
  return signature.finish();
}

}  // namespace magis
