// Indexing and embeddings. Sums into places met more than once may come out in another order of
// addition on CUDA; they are pure.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_gathers(OpTableBuilder& table) {
  table.pure({"aten.index.Tensor", "aten._unsafe_index.Tensor", "aten._unsafe_masked_index",
              "aten._unsafe_masked_index_put_accumulate", "aten._unsafe_index_put",
              "aten.index_select", "aten.gather", "aten.take", "aten.scatter.src",
              "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce",
              "aten.scatter_add", "aten.scatter_reduce.two", "aten.index_reduce", "aten.put",
              "aten.one_hot"});
  table.in_place_exclusive({"aten.index_put", "aten.index_add", "aten.index_copy",
                            "aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"});
  table.pure({"aten.embedding"}).axes("Vd, i* -> i*d");
  table.pure({"aten.embedding_dense_backward"}).axes(embedding_dense_backward);
  table.pure({"aten.embedding_renorm", "aten._embedding_bag", "aten._embedding_bag_forward_only",
              "aten._embedding_bag_dense_backward",
              "aten._embedding_bag_per_sample_weights_backward", "aten._embedding_bag_backward"});
}

}  // namespace magis
