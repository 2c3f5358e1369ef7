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

Signature beside_dimensions(const Graph& graph, const Operator& op, const Beside& rule) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr) return std::nullopt;
  const std::size_t rank = result->shape.size();
  std::vector<int64_t> numbers = signature.integers(rule.dims_position, "dim");
  if (rule.last_by_default && signature.absent(rule.dims_position, "dim")) numbers = {-1};
  std::vector<bool> left_out(rank, numbers.empty());
  for (int64_t number : numbers) {
    const std::size_t dim = signature.dimension(number, rank);
    if (dim < rank) left_out[dim] = true;
  }
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(left_out[d] ? DimAxis{} : signature.add_axis(result->shape[d]));
  }
  for (std::size_t i = 0; i < signature.result_count(); ++i) signature.set_result(i, dims);
  for (std::size_t position = 0; position < op.args.size(); ++position) {
    signature.set_operand(position, dims);
  }
  return signature.finish();
}

// (self, src, dim, index): src has all dimensions but one.
Signature select_scatter(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t selected =
      signature.dimension(signature.integer(2, "dim"), result->shape.size());
  Dims dims = axes_beside(signature, result->shape, selected);
  signature.set_operand(0, dims);
  signature.set_result(0, dims);
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(selected));
  signature.set_operand(1, dims);
  return signature.finish();
}

// (grad with the windows' elements last, [lengths of the base], dim, size, step).
Signature unfold_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr || result->shape.empty()) return std::nullopt;
  const std::size_t windows =
      signature.dimension(signature.integer(2, "dim"), result->shape.size());
  Dims dims = axes_beside(signature, result->shape, windows);
  signature.repeats_lengths(1, dims, "input_sizes");
  signature.set_result(0, dims);
  dims.push_back({});
  signature.set_operand(0, dims);
  return signature.finish();
}

// (grad with the diagonal last, [lengths of the base], offset, dim1, dim2).
Signature diagonal_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* result = signature.result(0);
  if (result == nullptr || result->shape.size() < 2) return std::nullopt;
  const std::size_t rank = result->shape.size();
  const std::size_t rows = signature.dimension(signature.integer(3, "dim1", 0), rank);
  const std::size_t columns = signature.dimension(signature.integer(4, "dim2", 1), rank);
  Dims dims;
  Dims diagonal;
  for (std::size_t d = 0; d < rank; ++d) {
    const bool left_out = d == rows || d == columns;
    dims.push_back(left_out ? DimAxis{} : signature.add_axis(result->shape[d]));
    if (!left_out) diagonal.push_back(dims.back());
  }
  diagonal.push_back({});
  signature.repeats_lengths(1, dims, "input_sizes");
  signature.set_result(0, dims);
  signature.set_operand(0, diagonal);
  return signature.finish();
}

// (self, repeats): a dimension that is repeated is no axis, but one that is new, or the repetition
// of one element, is: its number of repeats shrinks.
Signature repeat(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* self = signature.operand(0);
  const std::vector<int64_t> repeats = signature.integers(1, "repeats");
  if (self == nullptr || repeats.size() < self->shape.size()) return std::nullopt;
  const std::size_t added = repeats.size() - self->shape.size();
  Dims base(self->shape.size());
  Dims dims(repeats.size());
  Dims lengths(repeats.size());
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    const int64_t length = d < added ? 1 : self->shape[d - added];
    if (length == 1) {
      dims[d] = lengths[d] = signature.add_axis(repeats[d]);
    } else if (repeats[d] == 1) {
      dims[d] = base[d - added] = signature.add_axis(length);
    }
  }
  signature.set_operand(0, base);
  signature.repeats_lengths(1, lengths, "repeats");
  signature.set_result(0, dims);
  return signature.finish();
}

// (self, repeats, dim): each element becomes `repeats` neighbours.
Signature repeat_interleave(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* self = signature.operand(0);
  const int64_t repeats = signature.integer(1, "repeats", 1);
  if (self == nullptr || self->shape.empty() || signature.absent(2, "dim")) return std::nullopt;
  const std::size_t dim = signature.dimension(signature.integer(2, "dim"), self->shape.size());
  Dims dims = signature.add_axes(self->shape);
  signature.set_operand(0, dims);
  dims[dim].step = repeats;
  signature.set_result(0, dims);
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
