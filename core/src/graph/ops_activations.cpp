// Activations and their backwards. A backward overwrites the incoming gradient first, else the
// saved tensor.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_activations(OpTableBuilder& table) {
  table
      .in_place({"aten.relu", "aten.gelu", "aten.silu", "aten.mish", "aten.sigmoid", "aten.tanh",
                 "aten.hardswish", "aten.hardsigmoid", "aten.hardtanh", "aten.leaky_relu",
                 "aten.elu", "aten.threshold", "aten.logit"})
      .axes(pointwise);
  struct Backward {
    std::string_view name, spelling;
    std::vector<int> operands;
  };
  for (const Backward& backward : std::initializer_list<Backward>{
           {"aten.threshold_backward", "aten.threshold_backward.grad_input", {0, 1}},
           {"aten.gelu_backward", "aten.gelu_backward.grad_input", {0, 1}},
           {"aten.silu_backward", "aten.silu_backward.grad_input", {0, 1}},
           {"aten.sigmoid_backward", "aten.sigmoid_backward.grad_input", {0, 1}},
           {"aten.tanh_backward", "aten.tanh_backward.grad_input", {0, 1}},
           {"aten.hardsigmoid_backward", "aten.hardsigmoid_backward.grad_input", {0, 1}},
           {"aten.hardtanh_backward", "aten.hardtanh_backward.grad_input", {0, 1}},
           {"aten.leaky_relu_backward", "aten.leaky_relu_backward.grad_input", {0, 1}},
           {"aten.elu_backward", "aten.elu_backward.grad_input", {0, 5}},
           {"aten.softplus_backward", "aten.softplus_backward.grad_input", {0, 1}},
           {"aten.softshrink_backward", "aten.softshrink_backward.grad_input", {0, 1}},
           {"aten.hardshrink_backward", "aten.hardshrink_backward.grad_input", {0, 1}},
           {"aten.logit_backward", "aten.logit_backward.grad_input", {0, 1}}}) {
    table.in_place_out(backward.name, backward.spelling, "grad_input", backward.operands)
        .axes(pointwise);
  }
  table.in_place_out("aten.softplus", "aten.softplus.out", "out", {0}).axes(pointwise);
  table.in_place_out("aten.softshrink", "aten.softshrink.out", "out", {0}).axes(pointwise);
  table.in_place_out("aten.hardshrink", "aten.hardshrink.out", "out", {0}).axes(pointwise);
  table
      .pure({"aten.mish_backward", "aten.hardswish_backward", "aten.celu", "aten.selu",
             "aten.relu6", "aten.rrelu_with_noise_backward"})
      .axes(pointwise);
  table.pure({"aten.log_sigmoid_forward", "aten.log_sigmoid_backward"}).axes(log_sigmoid);
  table.pure({"aten._prelu_kernel", "aten._prelu_kernel_backward"}).axes(pointwise);
  table.pure({"aten.glu"}).axes(beside_or_last<1>);
  table.pure({"aten.glu_backward"}).axes(beside<2>);
  table.pure({"aten._masked_softmax", "aten._masked_softmax_backward"});
  table.pure({"aten._softmax", "aten._log_softmax", "aten._safe_softmax"}).axes(along<1>);
  table.pure({"aten._softmax_backward_data", "aten._log_softmax_backward_data"}).axes(along<2>);
}

}  // namespace magis
