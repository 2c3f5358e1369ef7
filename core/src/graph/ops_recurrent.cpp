// Recurrent cells and layers. cuDNN's layer updates its dropout state: it stays opaque.
#include "graph/op_table_builder.h"

namespace magis {

void add_recurrent(OpTableBuilder& table) {
  table.pure({"aten._thnn_fused_lstm_cell"}).axes("n., n., n., ., . -> n., n., n.");
  table.pure({"aten._thnn_fused_lstm_cell_backward_impl"})
      .axes("n., n., n., n., n. -> n., n., .+n");
  table.pure({"aten._thnn_fused_gru_cell"}).axes("n., n., n., ., . -> n., n.");
  table.pure({"aten._thnn_fused_gru_cell_backward"}).axes("n., n. -> n., n., n., .+n, .+n");
  table.pure({"aten.mkldnn_rnn_layer", "aten.mkldnn_rnn_layer_backward"});
}

}  // namespace magis
