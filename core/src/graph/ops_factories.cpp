// Tensors made from literals alone.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_factories(OpTableBuilder& table) {
  table.pure({"aten.scalar_tensor"}).axes("_ -> ");
  table.pure({"aten.full", "aten.ones", "aten.zeros"}).axes(filled<0>);
  table.pure({"aten.new_full", "aten.new_ones", "aten.new_zeros"}).axes(filled<1>);
  table
      .pure({"aten.full_like", "aten.ones_like", "aten.zeros_like", "aten.fill.Scalar",
             "aten.fill.Tensor", "aten.zero"})
      .axes(pointwise);
  table
      .pure({"aten.arange", "aten.arange.start", "aten.arange.start_step", "aten.linspace",
             "aten.logspace", "aten.eye", "aten.eye.m", "aten.tril_indices", "aten.triu_indices",
             "aten.hann_window", "aten.hann_window.periodic", "aten.hamming_window",
             "aten.hamming_window.periodic", "aten.blackman_window", "aten.kaiser_window"})
      .axes("_ -> .*");
  table.pure({"aten._efficientzerotensor", "aten.vander"});
  // What they hold is undefined: two calls need not agree, so whatever fills them comes from one
  // call.
  table.pure({"aten.empty_like"}).axes(pointwise);
  table.pure({"aten.empty.memory_format"}).axes(filled<0>);
  table.pure({"aten.new_empty"}).axes(filled<1>);
  table.pure({"aten.empty_strided", "aten.empty_permuted", "aten.new_empty_strided"});
}

}  // namespace magis
