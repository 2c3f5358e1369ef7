// Indexing and embeddings. Sums into places met more than once may come out in another order of
// addition on CUDA; they are pure.
#include "graph/axes_families.h"
#include "graph/op_shapes.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_gathers(OpTableBuilder& table) {
  table.pure({"aten.index.Tensor", "aten._unsafe_index.Tensor"}).axes(index_tensor);
  table.in_place_exclusive({"aten.index_put"}).axes(index_put);
  table.pure({"aten._unsafe_index_put"}).axes(index_put);
  table.pure({"aten.index_select"}).axes(index_select);
  table.pure({"aten.gather"}).axes(gather);
  table.pure({"aten.take"}).axes("N*, i* -> i*");
  table
      .pure({"aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce",
             "aten.scatter.value_reduce", "aten.scatter_reduce.two"})
      .axes(scatter<false>);
  table.pure({"aten.scatter_add"}).axes(scatter<true>);
  table.in_place_exclusive({"aten.index_add"}).axes(writes_rows<true>);
  table
      .in_place_exclusive(
          {"aten.index_copy", "aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"})
      .axes(writes_rows<false>);
  table.pure({"aten.index_reduce"}).axes(writes_rows<false>);
  table.pure({"aten._unsafe_masked_index", "aten._unsafe_masked_index_put_accumulate", "aten.put",
              "aten.one_hot"});
  table.pure({"aten.embedding"}).axes("Vd, i* -> i*d");
  table.pure({"aten.embedding_dense_backward"}).axes(embedding_dense_backward);
  table.pure({"aten._embedding_bag", "aten._embedding_bag_forward_only"}).axes(embedding_bag);
  table.pure({"aten.embedding_renorm", "aten._embedding_bag_dense_backward",
              "aten._embedding_bag_per_sample_weights_backward"});
  // Empty bags need no gradient.
  table.add("aten._embedding_bag_backward", Purity::pure).scratch = uncertain_scratch;
}

}  // namespace magis
