// Random networks in the manner of NASNet (paper section 7.3): cells that read the two cells before
// them, made of blocks that each combine two earlier states of the cell by an addition; what no
// block has read is concatenated. Convolutions are pointwise, hence matrix products over all
// pixels; separable ones are two with a relu between.
#pragma once

#include <cstdint>

#include "support/matrix_network.h"

namespace magis::test {

struct NasnetSize {
  int cells = 6;
  int blocks = 5;  // per cell
  int64_t pixels = 4096;
  int64_t channels = 32;
  bool training = true;  // with a loss, and the gradient of every weight as an output
};

// The same network for the same arguments on every machine.
MatrixNetwork make_nasnet(uint64_t seed, const NasnetSize& size = {});

}  // namespace magis::test
