// Pooling, resizing and sampling of images and sequences.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_pools(OpTableBuilder& table) {
  table
      .pure({"aten.avg_pool1d", "aten.upsample_nearest1d", "aten._upsample_nearest_exact1d",
             "aten.upsample_linear1d", "aten.upsample_nearest1d.vec",
             "aten._upsample_nearest_exact1d.vec", "aten.upsample_linear1d.vec"})
      .axes(leading<1>);
  table
      .pure({"aten.max_pool2d_with_indices",
             "aten.max_pool2d_with_indices_backward",
             "aten.avg_pool2d",
             "aten.avg_pool2d_backward",
             "aten._adaptive_avg_pool2d",
             "aten._adaptive_avg_pool2d_backward",
             "aten.adaptive_max_pool2d",
             "aten.adaptive_max_pool2d_backward",
             "aten.max_unpool2d",
             "aten.upsample_nearest2d",
             "aten._upsample_nearest_exact2d",
             "aten.upsample_bilinear2d",
             "aten.upsample_bicubic2d",
             "aten._upsample_bilinear2d_aa",
             "aten._upsample_bicubic2d_aa",
             "aten.upsample_nearest2d.vec",
             "aten._upsample_nearest_exact2d.vec",
             "aten.upsample_bilinear2d.vec",
             "aten.upsample_bicubic2d.vec",
             "aten._upsample_bilinear2d_aa.vec",
             "aten._upsample_bicubic2d_aa.vec"})
      .axes(leading<2>);
  table
      .pure({"aten.max_pool3d_with_indices", "aten.max_pool3d_with_indices_backward",
             "aten.avg_pool3d", "aten.avg_pool3d_backward", "aten._adaptive_avg_pool3d",
             "aten._adaptive_avg_pool3d_backward", "aten.adaptive_max_pool3d", "aten.max_unpool3d",
             "aten.upsample_nearest3d", "aten._upsample_nearest_exact3d",
             "aten.upsample_trilinear3d", "aten.upsample_nearest3d.vec",
             "aten._upsample_nearest_exact3d.vec", "aten.upsample_trilinear3d.vec"})
      .axes(leading<3>);
  table
      .pure({"aten.upsample_nearest1d_backward", "aten.upsample_nearest2d_backward",
             "aten.upsample_nearest3d_backward", "aten._upsample_nearest_exact1d_backward",
             "aten._upsample_nearest_exact2d_backward", "aten._upsample_nearest_exact3d_backward",
             "aten.upsample_linear1d_backward", "aten.upsample_bilinear2d_backward",
             "aten.upsample_bicubic2d_backward", "aten.upsample_trilinear3d_backward",
             "aten._upsample_bilinear2d_aa_backward", "aten._upsample_bicubic2d_aa_backward"})
      .axes(upsample_backward);
  table.pure({"aten.adaptive_max_pool3d_backward"}).axes(leading<3, true>);
  table.pure({"aten.fractional_max_pool2d", "aten.fractional_max_pool2d_backward"});
  table.pure({"aten.grid_sampler_2d"}).axes("nc.., nhw. -> nchw");
  table.pure({"aten.grid_sampler_2d_backward"}).axes("nchw, nc.., nhw. -> nc..+hw, nhw.+c");
  table.pure({"aten.grid_sampler_3d"}).axes("nc..., ndhw. -> ncdhw");
  table.pure({"aten.grid_sampler_3d_backward"}).axes("ncdhw, nc..., ndhw. -> nc...+dhw, ndhw.+c");
  table.pure({"aten.affine_grid_generator"}).axes("n.., [n.*] -> n.*");
}

}  // namespace magis
