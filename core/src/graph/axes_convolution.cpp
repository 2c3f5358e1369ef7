#include "graph/axes_families.h"

namespace magis {
namespace {

// Where the arguments of convolution and of its backward stand.
struct ConvolutionForm {
  std::size_t input, weight, stride, padding, transposed, output_padding, groups;
};
constexpr ConvolutionForm kForward = {0, 1, 3, 4, 6, 7, 8};
constexpr ConvolutionForm kBackward = {1, 2, 4, 5, 7, 8, 9};

// Input [N, Cin, ...], weight [Cout, Cin / groups, ...] or, transposed, [Cin, Cout / groups, ...],
// output [N, Cout, ...].
struct ConvolutionAxes {
  DimAxis batch;
  DimAxis input_channels, output_channels;  // with groups: the axis of groups
  Dims weight;
  Dims input_image, output_image;
  bool grouped = false;

  Dims input() const { return joined(input_channels, input_image); }
  Dims output() const { return joined(output_channels, output_image); }

 private:
  Dims joined(DimAxis channels, const Dims& image) const {
    Dims dims = {batch, channels};
    dims.insert(dims.end(), image.begin(), image.end());
    return dims;
  }
};

int64_t item(const std::vector<int64_t>& list, std::size_t index, int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : index < list.size() ? list[index] : otherwise;
}

// The axis along an image that no neighbour is read on, else none.
Dims image_axes(SignatureBuilder& signature, const ConvolutionForm& form, const Type& input,
                const Type& weight) {
  const std::vector<int64_t> stride = signature.integers(form.stride, "stride");
  const std::vector<int64_t> padding = signature.integers(form.padding, "padding");
  const std::vector<int64_t> output_padding =
      signature.integers(form.output_padding, "output_padding");
  Dims dims;
  for (std::size_t d = 2; d < input.shape.size(); ++d) {
    const bool alone = weight.shape[d] == 1 && item(stride, d - 2, 1) == 1 &&
                       item(padding, d - 2, 0) == 0 && item(output_padding, d - 2, 0) == 0;
    dims.push_back(alone ? signature.add_axis(input.shape[d]) : DimAxis{});
  }
  return dims;
}

std::optional<ConvolutionAxes> add_convolution_axes(SignatureBuilder& signature,
                                                    const ConvolutionForm& form) {
  const Type* input = signature.operand(form.input);
  const Type* weight = signature.operand(form.weight);
  const int64_t groups = signature.integer(form.groups, "groups", 1);
  if (input == nullptr || weight == nullptr || input->shape.size() < 3 || groups < 1 ||
      weight->shape.size() != input->shape.size()) {
    return std::nullopt;
  }
  const bool transposed = signature.truth(form.transposed, "transposed");
  ConvolutionAxes axes;
  axes.batch = signature.add_axis(input->shape[0]);
  axes.grouped = groups > 1;
  axes.weight.resize(weight->shape.size());
  if (axes.grouped) {
    // A group's channels are neighbours: they belong to the axis of groups.
    const DimAxis group = signature.add_axis(groups);
    const int64_t outputs = transposed ? weight->shape[1] : weight->shape[0] / groups;
    axes.input_channels = {group.axis, input->shape[1] / groups};
    axes.output_channels = {group.axis, outputs};
    axes.weight[0] = {group.axis, weight->shape[0] / groups};
    signature.repeats_length(form.groups, group);
  } else {
    axes.input_channels = signature.add_axis(input->shape[1]);
    axes.output_channels = signature.add_axis(weight->shape[transposed ? 1 : 0]);
    axes.weight[0] = transposed ? axes.input_channels : axes.output_channels;
    axes.weight[1] = transposed ? axes.output_channels : axes.input_channels;
  }
  axes.input_image = image_axes(signature, form, *input, *weight);
  axes.output_image = axes.input_image;
  return axes;
}

}  // namespace

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Signature convolution(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto axes = add_convolution_axes(signature, kForward);
  if (!axes) return std::nullopt;
  signature.set_operand(0, axes->input());
  signature.set_operand(1, axes->weight);
  signature.set_operand(2, {axes->output_channels});
  signature.add_once(2);
  signature.set_result(0, axes->output());
  if (!axes->grouped) signature.combine(0, axes->input_channels, Dependence::sum);
  return signature.finish();
}

// (grad_output, input, weight, [bias's length], stride, padding, dilation, transposed,
// output_padding, groups, output_mask) -> gradients of input, weight and bias.
Signature convolution_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto axes = add_convolution_axes(signature, kBackward);
  if (!axes) return std::nullopt;
  signature.set_operand(0, axes->output());
  signature.set_operand(1, axes->input());
  signature.set_operand(2, axes->weight);
  // [0] if there is no bias.
  if (signature.integers(3, "bias_sizes") ==
      std::vector{signature.axis_length(axes->output_channels) * axes->output_channels.step}) {
    signature.repeats_lengths(3, {axes->output_channels}, "bias_sizes");
  }
  signature.set_result(0, axes->input());
  signature.set_result(1, axes->weight);
  signature.set_result(2, {axes->output_channels});
  if (!axes->grouped) signature.combine(0, axes->output_channels, Dependence::sum);
  for (std::size_t weights : {1, 2}) {
    signature.combine(weights, axes->batch, Dependence::sum);
    signature.combine(weights, axes->output_image, Dependence::sum);
  }
  return signature.finish();
}

namespace {

int64_t product(const std::vector<int64_t>& numbers) {
  int64_t result = 1;
  for (int64_t number : numbers) result *= number;
  return result;
}

}  // namespace

// (image [N, C, H, W], kernel, ...) -> [N, C * positions in the kernel, places], and back.
Signature im2col(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* image = signature.operand(0);
  if (image == nullptr || image->shape.size() != 4) return std::nullopt;
  const int64_t positions = product(signature.integers(1, "kernel_size"));
  const DimAxis batch = signature.add_axis(image->shape[0]);
  const DimAxis channels = signature.add_axis(image->shape[1]);
  signature.set_operand(0, {batch, channels, {}, {}});
  signature.set_result(0, {batch, {channels.axis, positions}, {}});
  return signature.finish();
}

Signature col2im(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* image = signature.result(0);
  if (image == nullptr || image->shape.size() != 4) return std::nullopt;
  const int64_t positions = product(signature.integers(2, "kernel_size"));
  const DimAxis batch = signature.add_axis(image->shape[0]);
  const DimAxis channels = signature.add_axis(image->shape[1]);
  signature.set_operand(0, {batch, {channels.axis, positions}, {}});
  signature.set_result(0, {batch, channels, {}, {}});
  return signature.finish();
}

namespace {

// All dimensions of v but `dim` are normalised together. Tensors of v's rank have them; the norms
// are 1 long there.
Signature weight_norm_rows(const Graph& graph, const Operator& op, const Shape& shape,
                           std::size_t dim_position) {
  SignatureBuilder signature(graph, op);
  const std::size_t dim =
      signature.dimension(signature.integer(dim_position, "dim", 0), shape.size());
  Dims dims = signature.add_axes(shape, false);
  if (dim >= dims.size()) return std::nullopt;
  dims[dim] = signature.add_axis(shape[dim]);
  signature.broadcast_every_operand(dims);
  for (std::size_t i = 0; i < signature.result_count(); ++i) {
    const Type* result = signature.result(i);
    if (result != nullptr) signature.set_result(i, signature.broadcast(*result, dims));
  }
  return signature.finish();
}

}  // namespace

Signature weight_norm(const Graph& graph, const Operator& op) {
  const Type* v = SignatureBuilder(graph, op).operand(0);
  return v == nullptr ? std::nullopt : weight_norm_rows(graph, op, v->shape, 2);
}

Signature weight_norm_backward(const Graph& graph, const Operator& op) {
  const Type* v = SignatureBuilder(graph, op).operand(1);
  return v == nullptr ? std::nullopt : weight_norm_rows(graph, op, v->shape, 4);
}

}  // namespace magis
