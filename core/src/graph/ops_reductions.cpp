// Reductions, scans and orderings.
#include "graph/op_table_builder.h"

namespace magis {

void add_reductions(OpTableBuilder& table) {
  table.pure({"aten.sum",
              "aten.sum.dim_IntList",
              "aten.nansum",
              "aten.mean",
              "aten.mean.dim",
              "aten.nanmean",
              "aten.prod",
              "aten.prod.dim_int",
              "aten.amax",
              "aten.amin",
              "aten.aminmax",
              "aten.max",
              "aten.max.dim",
              "aten.min",
              "aten.min.dim",
              "aten.argmax",
              "aten.argmin",
              "aten.any",
              "aten.any.dim",
              "aten.any.dims",
              "aten.all",
              "aten.all.dim",
              "aten.all.dims",
              "aten.var.correction",
              "aten.var.dim",
              "aten.var",
              "aten.std.correction",
              "aten.std.dim",
              "aten.std",
              "aten.var_mean.correction",
              "aten.var_mean.dim",
              "aten.std_mean.correction",
              "aten.logsumexp",
              "aten.median",
              "aten.median.dim",
              "aten.nanmedian",
              "aten.nanmedian.dim",
              "aten.mode",
              "aten.kthvalue",
              "aten.count_nonzero",
              "aten.count_nonzero.dim_IntList",
              "aten.trace",
              "aten.dist",
              "aten.equal"});
  table.pure({"aten.value_selecting_reduction_backward"});
  table.in_place_exclusive({"aten.cumsum", "aten.cumprod"});
  table.pure({"aten.cummax", "aten.cummin", "aten.logcumsumexp", "aten._logcumsumexp",
              "aten.cumprod_backward", "aten.cummaxmin_backward", "aten.sort", "aten.sort.stable",
              "aten.argsort", "aten.argsort.stable", "aten.topk", "aten.msort", "aten.bincount",
              "aten.histc"});
}

}  // namespace magis
