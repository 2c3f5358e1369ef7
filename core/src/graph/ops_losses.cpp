// Losses and their backwards.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_losses(OpTableBuilder& table) {
  table.pure({"aten.nll_loss_forward", "aten.nll_loss2d_forward"}).axes(nll_loss_forward);
  table.pure({"aten.nll_loss_backward", "aten.nll_loss2d_backward"}).axes(nll_loss_backward);
  table
      .pure({"aten.mse_loss", "aten.l1_loss", "aten.smooth_l1_loss", "aten.huber_loss",
             "aten.kl_div", "aten.soft_margin_loss"})
      .axes(elementwise_loss<2>);
  table.pure({"aten.binary_cross_entropy"}).axes(elementwise_loss<3>);
  table.pure({"aten.binary_cross_entropy_with_logits"}).axes(elementwise_loss<4>);
  table
      .pure({"aten.mse_loss_backward", "aten.smooth_l1_loss_backward", "aten.huber_loss_backward",
             "aten.soft_margin_loss_backward"})
      .axes(elementwise_loss_backward<3>);
  table.pure({"aten.binary_cross_entropy_backward"}).axes(elementwise_loss_backward<4>);
  table.pure({"aten.multi_margin_loss", "aten.multi_margin_loss_backward",
              "aten.multilabel_margin_loss_forward", "aten.multilabel_margin_loss_backward",
              "aten._ctc_loss", "aten._ctc_loss.Tensor", "aten._ctc_loss_backward",
              "aten._ctc_loss_backward.Tensor", "aten._cudnn_ctc_loss",
              "aten._cudnn_ctc_loss.Tensor"});
}

}  // namespace magis
