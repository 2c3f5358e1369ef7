// Fourier transforms.
#include "graph/axes_families.h"
#include "graph/op_table_builder.h"

namespace magis {

void add_spectral(OpTableBuilder& table) {
  table.pure({"aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c"}).axes(beside<1>);
}

}  // namespace magis
