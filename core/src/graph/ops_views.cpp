// The views of the canonical language; view_type.cpp says what each makes of its base.
#include "graph/op_table_builder.h"

namespace magis {

void add_views(OpTableBuilder& table) {
  table.view({"aten.view", "aten.expand", "aten.permute", "aten.unsqueeze", "aten.squeeze.dim",
              "aten.squeeze.dims", "aten.slice.Tensor", "aten.select.int", "aten.as_strided",
              "aten.diagonal", "aten.unfold", "aten.view.dtype", "aten.view_as_real",
              "aten.view_as_complex", "magis.part"});
}

}  // namespace magis
