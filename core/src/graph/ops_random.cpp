// Operators that draw from the generator. The backwards of dropout read a mask and draw nothing.
#include "graph/axes_families.h"
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {

namespace {

// Both work on eight elements at once, as words of 64 bits: a byte for every element.
Bytes packing_scratch(const Graph& graph, const Operator& op) {
  const Type* mask = operand_type(graph, op, 0);
  return mask == nullptr ? 0 : element_count(mask->shape);
}
// A mask of bools is those words.
Bytes unpacking_scratch(const Graph& graph, const Operator& op) {
  const Type& mask = graph.value(op.results[0]).type;
  return mask.dtype == DType::boolean ? 0 : element_count(mask.shape);
}

}  // namespace

void add_random(OpTableBuilder& table) {
  table
      .random({"aten.native_dropout", "aten._fused_dropout", "aten.bernoulli", "aten.bernoulli.p",
               "aten.bernoulli.Tensor", "aten.rand_like", "aten.randn_like", "aten.randint_like",
               "aten.randint_like.low_dtype"})
      .axes(pointwise);
  table.random({"aten.rand", "aten.randn"}).axes(filled<0>);
  table.random({"aten.randint"}).axes(filled<1>);
  table.random({"aten.randint.low"}).axes(filled<2>);
  table.random({"aten.normal.float_float"}).axes(filled<2>);
  table.random({"aten.randperm"}).axes("_ -> .");
  table
      .random({"aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor",
               "aten.normal_functional", "aten.uniform", "aten.exponential", "aten.log_normal",
               "aten.geometric", "aten.cauchy", "aten.random", "aten.random.from", "aten.random.to",
               "aten.poisson", "aten.binomial", "aten._standard_gamma",
               "aten.rrelu_with_noise_functional"})
      .axes(pointwise);
  table.random({"aten.multinomial"}).axes("n*C -> n*.");
  table.random({"aten._sample_dirichlet"}).axes("b*N -> b*N");
  // A dropout mask of a CPU graph: magis.bernoulli([shape], [strides], p, dtype=torch.float32) is
  // torch.empty_strided(shape, strides, dtype=dtype).bernoulli_(p), which fills the mask in eager's
  // order.
  table.random({"magis.bernoulli"}).axes(filled<0>);
  // A mask of a whole batch, kept in an eighth of the bytes: magis.pack_bits(mask) makes u8 of
  // bool, eight along the last dimension in one; magis.unpack_bits(bits, dtype) makes the mask
  // again. Packing stays outside regions, so that what lives through them is the bits.
  table.add("magis.pack_bits", Purity::pure).scratch = packing_scratch;
  OpInfo& unpack = table.add("magis.unpack_bits", Purity::pure);
  unpack.axes = "b*., _ -> b*.";
  unpack.scratch = unpacking_scratch;
  table.pure({"aten.native_dropout_backward", "aten._masked_scale"}).axes(pointwise);
}

}  // namespace magis
