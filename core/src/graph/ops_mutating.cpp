// Writes to parameters, buffers, optimizer state and gradients: the only mutations of a graph. Any
// other operator whose name ends in an underscore is taken to write to its first argument
// (op_info).
#include "graph/op_table_builder.h"

namespace magis {

void add_mutating(OpTableBuilder& table) {
  table.mutating({"aten.copy_",
                  "aten.zero_",
                  "aten.fill_.Scalar",
                  "aten.fill_.Tensor",
                  "aten.add_.Tensor",
                  "aten.add_.Scalar",
                  "aten.sub_.Tensor",
                  "aten.sub_.Scalar",
                  "aten.mul_.Tensor",
                  "aten.mul_.Scalar",
                  "aten.div_.Tensor",
                  "aten.div_.Scalar",
                  "aten.neg_",
                  "aten.sqrt_",
                  "aten.lerp_.Scalar",
                  "aten.lerp_.Tensor",
                  "aten.addcmul_",
                  "aten.addcdiv_",
                  "aten.addmm_",
                  "aten.baddbmm_",
                  "aten.clamp_",
                  "aten.masked_fill_.Scalar",
                  "aten.masked_fill_.Tensor",
                  "aten.index_put_",
                  "aten.index_add_",
                  "aten.index_copy_",
                  "aten.scatter_.src",
                  "aten.scatter_.value",
                  "aten.scatter_add_"});
  // Lists: parameters, gradients (only scaled, and only on request), first and second moments,
  // maxima of the latter.
  table.mutating({"aten._fused_adam_", "aten._fused_adam_.tensor_lr", "aten._fused_adamw_",
                  "aten._fused_adamw_.tensor_lr"},
                 {0, 2, 3, 4});
  table.mutating({"aten._fused_sgd_", "aten._fused_sgd_.tensor_lr"}, {0, 2});
  table.mutating({"aten._foreach_copy_", "aten._foreach_zero_", "aten._foreach_add_.List",
                  "aten._foreach_add_.Scalar", "aten._foreach_mul_.Scalar",
                  "aten._foreach_mul_.List", "aten._foreach_div_.List", "aten._foreach_div_.Scalar",
                  "aten._foreach_sub_.List", "aten._foreach_lerp_.Scalar",
                  "aten._foreach_addcmul_.Scalar", "aten._foreach_addcdiv_.Scalar",
                  "aten._foreach_sqrt_", "aten._foreach_neg_"});
  // Averages a gradient over several processes, in place: %begun = magis.begin_average(%gradient)
  // begins, magis.end_average(%begun, [%others]) waits, for what the others have begun before it.
  // All processes do so in the same order, and once: as random operators do.
  for (const std::string_view name : {"magis.begin_average", "magis.end_average"}) {
    table.add(name, Purity::random).in_place = {.spelling = std::string(name) + "_",
                                                .out_argument = {},
                                                .operands = {0},
                                                .exclusive = true};
  }
}

}  // namespace magis
