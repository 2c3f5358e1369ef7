// Operators that draw from the generator. The backwards of dropout read a mask and draw nothing.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_random(OpTableBuilder& table) {
  table
      .random({"aten.native_dropout", "aten._fused_dropout", "aten.bernoulli", "aten.bernoulli.p",
               "aten.bernoulli.Tensor", "aten.rand_like", "aten.randn_like", "aten.randint_like",
               "aten.randint_like.low_dtype"})
      .axes(pointwise);
  table.random({"aten.rand", "aten.randn"}).axes(filled<0>);
  table.random({"aten.randint"}).axes(filled<1>);
  table.random({"aten.randint.low"}).axes(filled<2>);
  table.random({"aten.randperm",
                "aten.normal.Tensor_Tensor",
                "aten.normal.Tensor_float",
                "aten.normal.float_Tensor",
                "aten.normal.float_float",
                "aten.normal_functional",
                "aten.uniform",
                "aten.exponential",
                "aten.log_normal",
                "aten.geometric",
                "aten.cauchy",
                "aten.random",
                "aten.random.from",
                "aten.random.to",
                "aten.multinomial",
                "aten.poisson",
                "aten.binomial",
                "aten._standard_gamma",
                "aten._sample_dirichlet",
                "aten.rrelu_with_noise_functional"});
  // A dropout mask of a CPU graph: magis.bernoulli([shape], [strides], p, dtype=torch.float32) is
  // torch.empty_strided(shape, strides, dtype=dtype).bernoulli_(p), which fills the mask in eager's
  // order.
  table.random({"magis.bernoulli"}).axes(filled<0>);
  table.pure({"aten.native_dropout_backward", "aten._masked_scale"}).axes(pointwise);
}

}  // namespace magis
