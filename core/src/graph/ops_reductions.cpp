// Reductions, scans and orderings.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_reductions(OpTableBuilder& table) {
  table.pure({"aten.sum", "aten.sum.dim_IntList", "aten.nansum"}).axes(reduces<Dependence::sum>);
  table.pure({"aten.count_nonzero", "aten.count_nonzero.dim_IntList"})
      .axes(reduces<Dependence::sum>);
  table.pure({"aten.prod", "aten.prod.dim_int"}).axes(reduces<Dependence::product>);
  table.pure({"aten.amax", "aten.max"}).axes(reduces<Dependence::maximum>);
  table.pure({"aten.amin", "aten.min"}).axes(reduces<Dependence::minimum>);
  table.pure({"aten.any", "aten.any.dim", "aten.any.dims"}).axes(reduces<Dependence::any>);
  table.pure({"aten.all", "aten.all.dim", "aten.all.dims"}).axes(reduces<Dependence::all>);
  table
      .pure({"aten.mean", "aten.mean.dim", "aten.nanmean", "aten.max.dim", "aten.min.dim",
             "aten.argmax", "aten.argmin", "aten.var.correction", "aten.var.dim",
             "aten.std.correction", "aten.std.dim", "aten.var_mean.correction", "aten.var_mean.dim",
             "aten.std_mean.correction", "aten.logsumexp", "aten.median", "aten.median.dim",
             "aten.nanmedian", "aten.nanmedian.dim"})
      .axes(reduces<Dependence::once>);
  table.pure({"aten.var", "aten.std"}).axes(reduces<Dependence::once, kNoPosition>);
  table.pure({"aten.mode"}).axes(reduces_last<1>);
  table.pure({"aten.kthvalue"}).axes(reduces_last<2>);
  table.pure({"aten.aminmax"}).axes(aminmax);
  table.pure({"aten.trace", "aten.dist", "aten.equal"});
  table.pure({"aten.value_selecting_reduction_backward"}).axes(value_selecting_backward);

  table.in_place_exclusive({"aten.cumsum", "aten.cumprod"}).axes(along<1>);
  table
      .pure({"aten.cummax", "aten.cummin", "aten.logcumsumexp", "aten._logcumsumexp", "aten.sort",
             "aten.argsort"})
      .axes(along<1>);
  table.pure({"aten.cumprod_backward"}).axes(along<2>);
  table.pure({"aten.cummaxmin_backward"}).axes(along<3>);
  table.pure({"aten.sort.stable", "aten.argsort.stable"}).axes(along<kNoPosition>);
  table.pure({"aten.topk"}).axes(beside_or_last<2>);
  table.pure({"aten.msort"}).axes("Ns* -> Ns*");
  table.pure({"aten.bincount", "aten.histc"});
}

}  // namespace magis
