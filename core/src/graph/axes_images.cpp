// Pools, resizing and padding of images: batch and channels split, neighbours on the image do not.
#include "graph/axes_families.h"

namespace magis {

Signature leading_dimensions(const Graph& graph, const Operator& op, std::size_t image_rank,
                             bool contiguous) {
  SignatureBuilder signature(graph, op);
  const Type* first = signature.result(0);
  if (first == nullptr || first->shape.size() < image_rank) return std::nullopt;
  Shape shape = first->shape;
  shape.resize(shape.size() - image_rank);
  Dims dims = signature.add_axes(shape);
  dims.resize(first->shape.size());
  for (std::size_t i = 0; i < signature.result_count(); ++i) signature.set_result(i, dims);
  for (std::size_t position = 0; position < op.args.size(); ++position) {
    signature.set_operand(position, dims);
    if (contiguous) signature.needs_contiguous(position);
  }
  return signature.finish();
}

// (grad_output, output_size, [lengths of the input], ...).
Signature upsample_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.result(0);
  if (input == nullptr || input->shape.size() < 3) return std::nullopt;
  Dims dims = {signature.add_axis(input->shape[0]), signature.add_axis(input->shape[1])};
  dims.resize(input->shape.size());
  signature.set_operand(0, dims);
  signature.repeats_lengths(2, dims, "input_size");
  signature.set_result(0, dims);
  return signature.finish();
}

namespace {

// [..., C r r, H, W] and [..., C, H r, W r]: r r channels make one, a row makes r.
struct ShuffledDims {
  Dims deep, wide;
};
ShuffledDims shuffled_dims(SignatureBuilder& signature, const Shape& wide, int64_t factor) {
  ShuffledDims dims;
  const std::size_t rank = wide.size();
  for (std::size_t d = 0; d < rank; ++d) {
    const bool image = d + 2 >= rank;
    const DimAxis axis = signature.add_axis(image ? wide[d] / factor : wide[d]);
    dims.wide.push_back({axis.axis, image ? factor : 1});
    dims.deep.push_back({axis.axis, d + 3 == rank ? factor * factor : 1});
  }
  return dims;
}

}  // namespace

Signature pixel_shuffle(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* wide = signature.result(0);
  const int64_t factor = signature.integer(1, "upscale_factor", 1);
  if (wide == nullptr || wide->shape.size() < 3 || factor < 1) return std::nullopt;
  const ShuffledDims dims = shuffled_dims(signature, wide->shape, factor);
  signature.set_operand(0, dims.deep);
  signature.set_result(0, dims.wide);
  return signature.finish();
}

Signature pixel_unshuffle(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* wide = signature.operand(0);
  const int64_t factor = signature.integer(1, "downscale_factor", 1);
  if (wide == nullptr || wide->shape.size() < 3 || factor < 1) return std::nullopt;
  const ShuffledDims dims = shuffled_dims(signature, wide->shape, factor);
  signature.set_operand(0, dims.wide);
  signature.set_result(0, dims.deep);
  return signature.finish();
}

}  // namespace magis
