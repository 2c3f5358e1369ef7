// Operators that copy elements to other places: casts, layouts, joins, pads, and the backwards of
// views.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_movers(OpTableBuilder& table) {
  table
      .pure({"aten.clone", "aten._to_copy", "aten.lift_fresh_copy", "aten.copy",
             "aten._conj_physical"})
      .axes(pointwise);
  table.pure({"aten.cat"}).axes(cat);
  table.pure({"aten.stack"}).axes(stack);
  table.pure({"aten.repeat"}).axes(repeat);
  table.pure({"aten.repeat_interleave.self_int"}).axes(repeat_interleave);
  table.pure({"aten.flip"}).axes(beside<1>);
  table.pure({"aten.roll", "aten.rot90"}).axes(beside<2>);
  table.pure({"aten.pixel_shuffle"}).axes(pixel_shuffle);
  table.pure({"aten.pixel_unshuffle"}).axes(pixel_unshuffle);
  table.pure({"aten.channel_shuffle", "aten.native_channel_shuffle"}).axes("n.s* -> n.s*");
  table.pure(
      {"aten._chunk_cat", "aten.repeat_interleave.Tensor", "aten.block_diag", "aten.diag_embed"});
  table.in_place_exclusive({"aten.tril", "aten.triu"}).axes(leading<2>);

  table.pure({"aten.constant_pad_nd"}).axes(constant_pad);
  table
      .pure({"aten.reflection_pad1d", "aten.reflection_pad1d_backward", "aten.replication_pad1d",
             "aten.replication_pad1d_backward"})
      .axes(leading<1>);
  table
      .pure({"aten.reflection_pad2d", "aten.reflection_pad2d_backward", "aten.replication_pad2d",
             "aten.replication_pad2d_backward"})
      .axes(leading<2>);
  table
      .pure({"aten.reflection_pad3d", "aten.reflection_pad3d_backward", "aten.replication_pad3d",
             "aten.replication_pad3d_backward"})
      .axes(leading<3>);

  table.pure({"aten.slice_backward"}).axes(slice_backward);
  table.pure({"aten.select_backward"}).axes(select_backward);
  table.pure({"aten.diagonal_backward"}).axes(diagonal_backward);
  table.pure({"aten.unfold_backward"}).axes(unfold_backward);
  table.pure({"aten.slice_scatter"}).axes(beside<2>);
  table.pure({"aten.select_scatter"}).axes(select_scatter);
  table.pure({"aten.diagonal_scatter", "aten.as_strided_scatter", "aten.trace_backward",
              "aten.view_copy", "aten.expand_copy", "aten.permute_copy", "aten.slice_copy.Tensor",
              "aten.select_copy.int", "aten.unfold_copy", "aten.as_strided_copy",
              "aten.diagonal_copy", "aten.t_copy", "aten.transpose_copy.int", "aten.unsqueeze_copy",
              "aten.squeeze_copy.dim"});
  table.pure({"aten.alias_copy"}).axes(pointwise);
}

}  // namespace magis
