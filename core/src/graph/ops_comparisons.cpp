// Comparisons, logic, bits, and choosing by a mask.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_comparisons(OpTableBuilder& table) {
  // Their results are bool: in place only over a bool operand, which the layouts decide. Compared
  // with a number, a bool operand is promoted, and the kernel allocates it anew.
  table
      .in_place({"aten.eq.Tensor", "aten.ne.Tensor", "aten.lt.Tensor", "aten.le.Tensor",
                 "aten.gt.Tensor", "aten.ge.Tensor"})
      .axes(pointwise);
  table
      .pure({"aten.eq.Scalar", "aten.ne.Scalar", "aten.lt.Scalar", "aten.le.Scalar",
             "aten.gt.Scalar", "aten.ge.Scalar"})
      .axes(pointwise);
  table
      .in_place({"aten.logical_and", "aten.logical_or", "aten.logical_xor", "aten.logical_not",
                 "aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor", "aten.bitwise_xor.Tensor",
                 "aten.bitwise_and.Scalar", "aten.bitwise_or.Scalar", "aten.bitwise_xor.Scalar",
                 "aten.bitwise_not", "aten.bitwise_left_shift.Tensor",
                 "aten.bitwise_left_shift.Tensor_Scalar", "aten.bitwise_right_shift.Tensor",
                 "aten.bitwise_right_shift.Tensor_Scalar"})
      .axes(pointwise);
  table
      .pure({"aten.__lshift__.Scalar", "aten.__rshift__.Scalar", "aten.__and__.Tensor",
             "aten.__or__.Tensor"})
      .axes(pointwise);
  table.in_place({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}).axes(pointwise);
  table.in_place_out("aten.where.self", "aten.where.self_out", "out", {1, 2}).axes(pointwise);
  table
      .pure({"aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar", "aten.isnan",
             "aten.isinf", "aten.isfinite", "aten.isposinf", "aten.isneginf", "aten.isclose",
             "aten.bitwise_and.Scalar_Tensor", "aten.bitwise_or.Scalar_Tensor",
             "aten.bitwise_xor.Scalar_Tensor"})
      .axes(pointwise);
  table.pure({"aten.isin.Tensor_Tensor"}).axes("x*, .* -> x*");
  table.pure({"aten.isin.Tensor_Scalar"}).axes(pointwise);
  table.pure({"aten.bucketize.Tensor"}).axes("x*, . -> x*");
  table.pure({"aten.isin.Scalar_Tensor", "aten.masked_scatter", "aten.masked_scatter_backward",
              "aten.searchsorted.Tensor"});
}

}  // namespace magis
