// Operators that draw from the generator. The backwards of dropout read a mask and draw nothing.
#include "graph/op_table_builder.h"

namespace magis {

void add_random(OpTableBuilder& table) {
  table.random({"aten.native_dropout",
                "aten._fused_dropout",
                "aten.bernoulli",
                "aten.bernoulli.p",
                "aten.bernoulli.Tensor",
                "aten.rand",
                "aten.rand_like",
                "aten.randn",
                "aten.randn_like",
                "aten.randint",
                "aten.randint.low",
                "aten.randint_like",
                "aten.randint_like.low_dtype",
                "aten.randperm",
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
  table.random({"magis.bernoulli"});
  table.pure({"aten.native_dropout_backward", "aten._masked_scale"});
}

}  // namespace magis
