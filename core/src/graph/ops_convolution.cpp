// Convolutions, transposed and grouped ones included.
#include "graph/axes_families.h"
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {
namespace {

// Each element of the side that the weight's first dimension counts meets every other weight of its
// group once: that side is the output of a convolution ([out, in / groups, ...]) and the input of a
// transposed one ([in, out / groups, ...]).
double one_pass(const Type& input, const Type& output, const Type& weight, bool transposed) {
  if (weight.shape.empty() || weight.shape[0] == 0) return 0;
  const double weights_per_element = elements(weight) / static_cast<double>(weight.shape[0]);
  return 2 * elements(transposed ? input : output) * weights_per_element;
}

double convolution_flops(const Graph& graph, const Operator& op) {
  const Type* input = operand_type(graph, op, 0);
  const Type* weight = operand_type(graph, op, 1);
  if (input == nullptr || weight == nullptr) return 0;
  return one_pass(*input, graph.value(op.results[0]).type, *weight, flag(op, 6, "transposed"));
}

// One pass each for the gradients of input and weight, as far as they are asked for.
double convolution_backward_flops(const Graph& graph, const Operator& op) {
  const Type* grad_output = operand_type(graph, op, 0);
  const Type* input = operand_type(graph, op, 1);
  const Type* weight = operand_type(graph, op, 2);
  if (grad_output == nullptr || input == nullptr || weight == nullptr) return 0;
  const double one = one_pass(*input, *grad_output, *weight, flag(op, 7, "transposed"));
  return one * (has_result(graph, op, 0) ? 1 : 0) + one * (has_result(graph, op, 1) ? 1 : 0);
}

}  // namespace

void add_convolutions(OpTableBuilder& table) {
  table.add("aten.convolution", Purity::pure).flops = convolution_flops;
  table.of({"aten.convolution"}).axes(convolution);
  table.add("aten.convolution_backward", Purity::pure).flops = convolution_backward_flops;
  table.of({"aten.convolution_backward"}).axes(convolution_backward);
  table.pure({"aten.im2col"}).axes(im2col);
  table.pure({"aten.col2im"}).axes(col2im);
  table.pure({"aten._weight_norm_interface"}).axes(weight_norm);
  table.pure({"aten._weight_norm_interface_backward"}).axes(weight_norm_backward);
}

}  // namespace magis
