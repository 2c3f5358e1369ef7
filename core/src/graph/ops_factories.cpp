// Tensors made from literals alone.
#include "graph/op_table_builder.h"

namespace magis {

void add_factories(OpTableBuilder& table) {
  table.pure({"aten.scalar_tensor",
              "aten.arange",
              "aten.arange.start",
              "aten.arange.start_step",
              "aten.linspace",
              "aten.logspace",
              "aten.eye",
              "aten.eye.m",
              "aten.full",
              "aten.full_like",
              "aten.ones",
              "aten.ones_like",
              "aten.zeros",
              "aten.zeros_like",
              "aten.new_full",
              "aten.new_ones",
              "aten.new_zeros",
              "aten.tril_indices",
              "aten.triu_indices",
              "aten.hann_window",
              "aten.hann_window.periodic",
              "aten.hamming_window",
              "aten.hamming_window.periodic",
              "aten.blackman_window",
              "aten.kaiser_window",
              "aten._efficientzerotensor",
              "aten.fill.Scalar",
              "aten.fill.Tensor",
              "aten.zero",
              "aten.vander"});
  // What they hold is undefined: two calls need not agree, so whatever fills them comes from one
  // call.
  for (std::string_view name :
       {"aten.empty.memory_format", "aten.empty_like", "aten.empty_strided", "aten.empty_permuted",
        "aten.new_empty", "aten.new_empty_strided"}) {
    table.add(name, Purity::pure);
  }
}

}  // namespace magis
