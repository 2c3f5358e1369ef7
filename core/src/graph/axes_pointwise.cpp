#include "graph/axes_families.h"

namespace magis {
namespace {

// Results of one shape with an axis for each dimension, and operands that broadcast to it. The
// first defined result gives the shape.
std::optional<Dims> set_pointwise_rows(SignatureBuilder& signature) {
  const Type* shape_giver = nullptr;
  for (std::size_t i = 0; i < signature.result_count(); ++i) {
    if (shape_giver == nullptr) shape_giver = signature.result(i);
  }
  if (shape_giver == nullptr) return std::nullopt;
  const Dims dims = signature.add_axes(shape_giver->shape);
  for (std::size_t i = 0; i < signature.result_count(); ++i) signature.set_result(i, dims);
  signature.broadcast_every_operand(dims);
  return dims;
}

}  // namespace

Signature pointwise(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  if (!set_pointwise_rows(signature)) return std::nullopt;
  return signature.finish();
}

// Kernels that need no buffer leave it empty, [0].
Signature log_sigmoid(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* shape_giver = signature.result(0);
  if (shape_giver == nullptr) return std::nullopt;
  const Dims dims = signature.add_axes(shape_giver->shape);
  for (std::size_t position = 0; position < op.args.size(); ++position) {
    const Type* type = signature.operand(position);
    if (type != nullptr && type->shape != Shape{0}) signature.set_operand(position, dims);
  }
  for (std::size_t i = 0; i < signature.result_count(); ++i) {
    const Type* type = signature.result(i);
    if (type != nullptr && type->shape != Shape{0}) signature.set_result(i, dims);
  }
  return signature.finish();
}

Signature along_dimension(const Graph& graph, const Operator& op, std::size_t dimension_position) {
  SignatureBuilder signature(graph, op);
  const std::optional<Dims> dims = set_pointwise_rows(signature);
  if (!dims) return std::nullopt;
  const int64_t number = signature.integer(dimension_position, "dim", -1);
  const std::size_t dim = signature.dimension(number, dims->size());
  if (dim < dims->size()) signature.keep_whole((*dims)[dim]);
  return signature.finish();
}

Signature filled_shape(const Graph& graph, const Operator& op, std::size_t lengths_position) {
  SignatureBuilder signature(graph, op);
  const Type* type = signature.result(0);
  if (type == nullptr) return std::nullopt;
  const Dims dims = signature.add_axes(type->shape);
  signature.set_result(0, dims);
  signature.repeats_lengths(lengths_position, dims, "size");
  return signature.finish();
}

}  // namespace magis
