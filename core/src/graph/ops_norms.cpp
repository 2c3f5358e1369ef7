// Normalisations. Those of PyTorch that update running statistics in place do not occur in a
// functional graph.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_norms(OpTableBuilder& table) {
  // Arguments 1 and 2 are the lengths of the normalised dimensions.
  table.pure({"aten.native_layer_norm"}).axes("b*N*, [N*], N*, N*, _ -> b*N*, b*.*, b*.*");
  table.pure({"aten.native_layer_norm_backward"})
      .axes("b*N*, b*N*, [N*], #b*.*, #b*.*, N*, N*, _ -> b*N*, N*+b*, N*+b*");
  table.pure({"aten._fused_rms_norm"}).axes("b*N*, [N*], N*, _ -> b*N*, b*.*");
  table.pure({"aten._fused_rms_norm_backward"})
      .axes("b*N*, b*N*, [N*], #b*.*, N*, _ -> b*N*, N*+b*");
  table.pure({"aten.native_group_norm"}).axes(group_norm);
  table.pure({"aten.native_group_norm_backward"}).axes(group_norm_backward);

  // Up to four operands with an element a channel; whether it trains is an argument, or in the
  // name.
  table.pure({"aten._native_batch_norm_legit_functional"}).axes(normalizes_channels<4, 5>);
  table.pure({"aten._native_batch_norm_legit.no_stats"}).axes(normalizes_channels<2, 3>);
  table.pure({"aten._batch_norm_with_update_functional"}).axes(normalizes_channels<4, -1, true>);
  table.pure({"aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update"})
      .axes(normalizes_channels<4, -1, false>);
  table.pure({"aten.native_batch_norm_backward", "aten.batch_norm_backward"})
      .axes(batch_norm_backward);
  table.pure({"aten.cudnn_batch_norm_backward", "aten.batch_norm_stats", "aten.batch_norm_elemt",
              "aten.batch_norm_backward_reduce", "aten.batch_norm_backward_elemt"});
  // The running statistics are arguments 3 and 4.
  table.mutating({"aten._native_batch_norm_legit", "aten._batch_norm_with_update"}, {3, 4});

  table.pure({"aten.renorm"}).axes(renorm);
  table
      .pure({"aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype"})
      .axes(reduces<Dependence::once, 2>);
  table.pure({"aten.norm.Scalar"}).axes(reduces<Dependence::once, kNoPosition>);
}

}  // namespace magis
