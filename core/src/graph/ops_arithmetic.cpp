// Elementwise arithmetic: what TensorIterator computes one element at a time, and the optimizers'
// update formulas.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_arithmetic(OpTableBuilder& table) {
  // Commutative: either operand may be overwritten, and the bits are the same in either order.
  table.in_place({"aten.add.Tensor", "aten.mul.Tensor"}, {0, 1}).axes(pointwise);
  table
      .in_place({"aten.add.Scalar",
                 "aten.sub.Tensor",
                 "aten.sub.Scalar",
                 "aten.div.Tensor",
                 "aten.div.Scalar",
                 "aten.div.Tensor_mode",
                 "aten.div.Scalar_mode",
                 "aten.remainder.Scalar",
                 "aten.remainder.Tensor",
                 "aten.fmod.Scalar",
                 "aten.fmod.Tensor",
                 "aten.addcmul",
                 "aten.addcdiv",
                 "aten.lerp.Scalar",
                 "aten.lerp.Tensor",
                 "aten.xlogy.Tensor",
                 "aten.atan2",
                 "aten.hypot",
                 "aten.copysign.Tensor",
                 "aten.nextafter"})
      .axes(pointwise);
  table
      .in_place({"aten.abs",          "aten.neg",     "aten.reciprocal",
                 "aten.sqrt",         "aten.rsqrt",   "aten.square",
                 "aten.exp",          "aten.exp2",    "aten.expm1",
                 "aten.log",          "aten.log2",    "aten.log10",
                 "aten.log1p",        "aten.sin",     "aten.cos",
                 "aten.tan",          "aten.asin",    "aten.acos",
                 "aten.atan",         "aten.sinh",    "aten.cosh",
                 "aten.asinh",        "aten.acosh",   "aten.atanh",
                 "aten.erf",          "aten.erfc",    "aten.erfinv",
                 "aten.floor",        "aten.ceil",    "aten.trunc",
                 "aten.frac",         "aten.round",   "aten.round.decimals",
                 "aten.sign",         "aten.sgn",     "aten.sinc",
                 "aten.lgamma",       "aten.digamma", "aten.nan_to_num",
                 "aten.conj_physical"})
      .axes(pointwise);
  table
      .in_place({"aten.clamp", "aten.clamp.Tensor", "aten.clamp_min", "aten.clamp_min.Tensor",
                 "aten.clamp_max", "aten.clamp_max.Tensor"})
      .axes(pointwise);
  // aten.mul_.Scalar takes the number as the first factor, which rounds 16-bit products
  // differently.
  table.in_place_as("aten.mul.Scalar", "aten.mul_.Tensor").axes(pointwise);
  table.in_place_as("aten.pow.Tensor_Scalar", "aten.pow_.Scalar").axes(pointwise);
  table.in_place_as("aten.floor_divide", "aten.floor_divide_.Tensor").axes(pointwise);
  table.in_place_out("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Tensor_out", "out", {0, 1})
      .axes(pointwise);
  table.in_place_out("aten.maximum", "aten.maximum.out", "out", {0, 1}).axes(pointwise);
  table.in_place_out("aten.minimum", "aten.minimum.out", "out", {0, 1}).axes(pointwise);
  table.in_place_out("aten.fmax", "aten.fmax.out", "out", {0, 1}).axes(pointwise);
  table.in_place_out("aten.fmin", "aten.fmin.out", "out", {0, 1}).axes(pointwise);
  table.in_place_out("aten.logaddexp", "aten.logaddexp.out", "out", {0, 1}).axes(pointwise);
  table.in_place_out("aten.logaddexp2", "aten.logaddexp2.out", "out", {0, 1}).axes(pointwise);
  table
      .pure({"aten.rsub.Tensor",
             "aten.rsub.Scalar",
             "aten.pow.Scalar",
             "aten.remainder.Scalar_Tensor",
             "aten.xlogy.Scalar_Self",
             "aten.xlogy.Scalar_Other",
             "aten.copysign.Scalar",
             "aten.heaviside",
             "aten.ldexp.Tensor",
             "aten.polygamma",
             "aten.signbit",
             "aten.angle",
             "aten.complex",
             "aten.polar",
             "aten.i0",
             "aten.special_i0e",
             "aten.special_i1",
             "aten.special_i1e",
             "aten.special_erfcx",
             "aten.special_log_ndtr",
             "aten.special_ndtri",
             "aten.special_entr",
             "aten.special_xlog1py",
             "aten.special_zeta",
             "aten.igamma",
             "aten.igammac",
             "aten.deg2rad",
             "aten.rad2deg"})
      .axes(pointwise);
}

}  // namespace magis
