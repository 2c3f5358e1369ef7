#include "graph/axes_families.h"

namespace magis {
namespace {

// [N, C, ...]: channels split; batch and image too where nothing is normalised over them.
Dims add_channel_axes(SignatureBuilder& signature, const Shape& shape, bool training) {
  Dims dims = signature.add_axes(shape, !training);
  dims[1] = signature.add_axis(shape[1]);
  return dims;
}

// Statistics that a mode does not make are empty.
void set_channel_results(SignatureBuilder& signature, DimAxis channels) {
  for (std::size_t i = 1; i < signature.result_count(); ++i) {
    const Type* type = signature.result(i);
    if (type != nullptr && type->shape != Shape{0}) signature.set_result(i, {channels});
  }
}

void set_channel_operands(SignatureBuilder& signature, std::size_t first, std::size_t last,
                          DimAxis channels) {
  for (std::size_t position = first; position <= last; ++position) {
    const Type* type = signature.operand(position);
    if (type != nullptr && type->shape != Shape{0}) signature.set_operand(position, {channels});
  }
}

}  // namespace

// (input, weight, bias, ...) -> output, saved statistics, new running statistics. The operands from
// 1 to `last_statistic` have one element a channel.
Signature batch_norm(const Graph& graph, const Operator& op, std::size_t last_statistic,
                     std::ptrdiff_t training_position, bool training) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(0);
  if (input == nullptr || input->shape.size() < 2) return std::nullopt;
  if (training_position >= 0) {
    training = signature.truth(static_cast<std::size_t>(training_position), "training");
  }
  const Dims dims = add_channel_axes(signature, input->shape, training);
  signature.set_operand(0, dims);
  set_channel_operands(signature, 1, last_statistic, dims[1]);
  signature.set_result(0, dims);
  set_channel_results(signature, dims[1]);
  return signature.finish();
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, ...) ->
// gradients of input, weight and bias.
Signature batch_norm_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* input = signature.operand(1);
  if (input == nullptr || input->shape.size() < 2) return std::nullopt;
  const bool training = signature.truth(7, "train");
  const Dims dims = add_channel_axes(signature, input->shape, training);
  signature.set_operand(0, dims);
  signature.set_operand(1, dims);
  set_channel_operands(signature, 2, 6, dims[1]);
  signature.set_result(0, dims);
  set_channel_results(signature, dims[1]);
  for (std::size_t result : {1, 2}) signature.combine(result, dims, Dependence::sum);
  return signature.finish();
}

namespace {

struct GroupAxes {
  Dims input;  // [N, C, ...]
  DimAxis batch, group, channels;
};

// `at`: the position of N, which C, H x W and the number of groups follow.
std::optional<GroupAxes> add_group_axes(SignatureBuilder& signature, const Type* input,
                                        std::size_t at) {
  const int64_t groups = signature.integer(at + 3, "group", 1);
  if (input == nullptr || input->shape.size() < 2 || groups < 1) return std::nullopt;
  GroupAxes axes;
  axes.batch = signature.add_axis(input->shape[0]);
  axes.group = signature.add_axis(groups);
  axes.channels = {axes.group.axis, input->shape[1] / groups};
  axes.input.resize(input->shape.size());
  axes.input[0] = axes.batch;
  axes.input[1] = axes.channels;
  signature.repeats_length(at, axes.batch);
  signature.repeats_length(at + 1, axes.group, axes.channels.step);
  signature.repeats_length(at + 3, axes.group);
  return axes;
}

}  // namespace

// (input, weight, bias, N, C, HxW, group, eps) -> output, mean [N, group], rstd [N, group].
Signature group_norm(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto axes = add_group_axes(signature, signature.operand(0), 3);
  if (!axes) return std::nullopt;
  signature.set_operand(0, axes->input);
  signature.needs_contiguous(0);
  signature.set_operand(1, {axes->channels});
  signature.set_operand(2, {axes->channels});
  signature.set_result(0, axes->input);
  signature.set_result(1, {axes->batch, axes->group});
  signature.set_result(2, {axes->batch, axes->group});
  return signature.finish();
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
Signature group_norm_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto axes = add_group_axes(signature, signature.operand(1), 5);
  if (!axes) return std::nullopt;
  signature.set_operand(0, axes->input);
  signature.set_operand(1, axes->input);
  signature.set_operand(2, {axes->batch, axes->group});
  signature.set_operand(3, {axes->batch, axes->group});
  for (std::size_t position : {0, 1, 2, 3}) signature.needs_contiguous(position);
  signature.set_operand(4, {axes->channels});
  signature.set_result(0, axes->input);
  for (std::size_t result : {1, 2}) {
    signature.set_result(result, {axes->channels});
    signature.combine(result, axes->batch, Dependence::sum);
  }
  return signature.finish();
}

}  // namespace magis
